#include "python/bindings/bind_error.h"

#include <nanobind/nanobind.h>

namespace byteps::python {

namespace nb = nanobind;

void RaiseError(byteps_code code, const byteps_error& error) {
  // The exceptions live in Python, where users catch them. Errors are rare, so each one imports the
  // function again.
  nb::object make = nb::module_::import_("byteps.common.errors").attr("error_from_code");
  nb::object exception = make(static_cast<int>(code), nb::str(error.message));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

}  // namespace byteps::python
