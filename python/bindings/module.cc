#include <nanobind/nanobind.h>

#include "python/bindings/bind_device.h"
#include "python/bindings/bind_mxnet.h"
#include "python/bindings/bind_serve.h"
#include "python/bindings/bind_session.h"
#include "python/bindings/bind_xla.h"
#include "python/bindings/tensorflow_kernels.h"

NB_MODULE(_core, module) {
  // Handles that a program never synchronized live until exit, which is no leak.
  nanobind::set_leak_warnings(false);
  byteps::python::BindXla(module);  // first: sessions take its class Ending
  byteps::python::BindTensorflow(module);
  byteps::python::BindSession(module);
  byteps::python::BindServe(module);
  byteps::python::BindDevice(module);
  byteps::python::BindMxnet(module);
}
