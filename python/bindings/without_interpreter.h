#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace byteps::python {

// Lets other threads have the interpreter as long as this object lives.
//
// Up to version 3.13 Python calls pthread_exit in a thread that wants the interpreter back while
// the interpreter ends. That unwinds the stack, and a destructor that must not throw would end the
// process with std::terminate. So the thread stays here for ever, as it does in Python from 3.14
// on.
class WithoutInterpreter {
 public:
  WithoutInterpreter() noexcept : state_(PyEval_SaveThread()) {}
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;
  ~WithoutInterpreter() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {  // not an exception: pthread_exit, which must not be caught and left
      for (;;) pause();
    }
  }

 private:
  PyThreadState* const state_;
};

}  // namespace byteps::python
