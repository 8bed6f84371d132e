#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace byteps::python {

// The error that ends a framework's call, for which Python has raised an exception.
struct CallError {
  int code;  // a byteps_code
  std::string text;
};

// Both take an exception that Python has raised inside a framework's call, where it may not go on
// through the framework. An exception that is no `Exception`, such as that of sys.exit() in a
// signal handler, ends more than the call: the main thread raises it again with its next step of
// Python. The caller holds the interpreter lock.

// Returns what ends the call.
CallError TakeError(nanobind::python_error& error) noexcept;

// Reports the exception as one that nobody can catch, unless the main thread raises it. `where` is
// for the report.
void DropError(nanobind::python_error& error, const char* where) noexcept;

}  // namespace byteps::python
