// The parts of MXNet's C interface that this package uses, and of the structs behind its pointers.
// The functions are looked up in the library that MXNet has loaded; nothing of MXNet is needed to
// build. MXNet 1.9.1 is the last release, so the layouts are final: fields keep its order.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace byteps::python::mxnet {

using ArrayHandle = void*;

struct Context {
  int32_t device_kind;
  int32_t device_number;
};

constexpr int32_t kCpu = 1;

// The kind of a function that never blocks. The engine calls it at once, on any thread that finds
// that everything before it is done.
constexpr int kAsynchronous = 4;

// Ends an operation of the engine. It is a temporary, so code that ends the operation later copies
// it. The engine copies the error, and raises it where the result is read.
struct OnComplete {
  void (*callback)(void* engine, void* operation, const std::runtime_error* error);
  void* engine;
  void* operation;
};

using Function = void (*)(void* run_context, void* on_complete, void* argument);
using Deleter = void (*)(void* argument);

// DLPack's tensor, up to the last field that is used; the fields between keep their places.
struct Tensor {
  void* data;
  Context context;
  int dimensions;
  uint8_t kind;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* owner;
  void (*deleter)(ManagedTensor*);
};

// The functions return 0 for success; after another number `get_last_error` returns the reason, on
// the same thread.
struct Functions {
  int (*push_async)(Function function, void* argument, Deleter deleter, const Context* context,
                    ArrayHandle* read, int read_count, ArrayHandle* written, int written_count,
                    const int* property, int priority, const char* name, bool wait);
  int (*shallow_copy)(ArrayHandle array, ArrayHandle* copy);
  int (*free_array)(ArrayHandle array);
  int (*to_dlpack)(ArrayHandle array, ManagedTensor** tensor);
  const char* (*get_last_error)();
};

}  // namespace byteps::python::mxnet
