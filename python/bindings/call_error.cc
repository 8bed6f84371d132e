#include "python/bindings/call_error.h"

#include <nanobind/stl/string.h>

#include <exception>

#include "byteps/byteps.h"

namespace byteps::python {
namespace nb = nanobind;
namespace {

// Returns whether Python makes an exception. TensorFlow does so while it goes back to Python, and
// takes whatever is raised meanwhile for a fault of the exception's class.
bool IsMakingException() {
  nb::object base = nb::borrow(PyExc_BaseException);
  nb::object frame = nb::module_::import_("sys").attr("_getframe")();
  for (; !frame.is_none(); frame = frame.attr("f_back")) {
    if (nb::cast<std::string>(frame.attr("f_code").attr("co_name")) != "__init__") continue;
    if (nb::isinstance(frame.attr("f_locals").attr("get")("self"), base)) return true;
  }
  return false;
}

// Python calls this on the main thread, between two steps.
int Raise(void* exception) {
  try {
    if (IsMakingException() && Py_AddPendingCall(&Raise, exception) == 0) return 0;  // later
  } catch (const std::exception&) {
    // Nobody knows then, so it is raised now.
  }
  nb::object value = nb::steal(static_cast<PyObject*>(exception));
  PyErr_SetObject(value.type().ptr(), value.ptr());
  return -1;
}

// Returns whether the main thread will raise the exception.
bool RaiseOnMainThread(const nb::python_error& error) {
  nb::object value = nb::borrow(error.value());
  if (PyObject_IsInstance(value.ptr(), PyExc_Exception) != 0) return false;
  if (Py_AddPendingCall(&Raise, value.ptr()) != 0) return false;
  value.release();  // Raise has it
  return true;
}

}  // namespace

CallError TakeError(nb::python_error& error) noexcept {
  RaiseOnMainThread(error);
  try {
    nb::object ours = nb::module_::import_("byteps.common.errors").attr("BytepsError");
    if (nb::isinstance(error.value(), ours)) {
      return {nb::cast<int>(error.value().attr("code")),
              nb::cast<std::string>(nb::str(error.value()))};
    }
  } catch (const std::exception&) {
    // The exception has no text of its own then, as one that is not ours.
  }
  return {BYTEPS_INTERNAL, error.what()};
}

void DropError(nb::python_error& error, const char* where) noexcept {
  if (!RaiseOnMainThread(error)) error.discard_as_unraisable(where);
}

}  // namespace byteps::python
