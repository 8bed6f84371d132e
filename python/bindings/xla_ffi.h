// The parts of XLA's C interface for custom calls ("FFI", version 0.1) that this package uses.
// XLA accepts handlers of an older minor version, so these structs serve all its versions from 0.1
// on; nothing of XLA is needed to build. XLA owns the layout: fields keep its order and types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "python/bindings/status_code.h"

namespace byteps::python::xla {

constexpr int kMajorVersion = 0;
constexpr int kMinorVersion = 1;

struct Error;      // opaque
struct Future;     // opaque
struct Execution;  // opaque

enum class ExtensionKind : int { kMetadata = 1 };

struct Extension {
  size_t struct_size;
  ExtensionKind kind;
  Extension* next;
};

struct Version {
  size_t struct_size;
  Extension* extensions;
  int major;
  int minor;
};

struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct ErrorCreateArguments {
  size_t struct_size;
  Extension* extensions;
  const char* message;
  StatusCode code;
};

struct StreamGetArguments {
  size_t struct_size;
  Extension* extensions;
  Execution* execution;
  void* stream;  // out
};

struct FutureCreateArguments {
  size_t struct_size;
  Extension* extensions;
  Future* future;  // out
};

struct FutureAvailableArguments {
  size_t struct_size;
  Extension* extensions;
  Future* future;
};

struct FutureErrorArguments {
  size_t struct_size;
  Extension* extensions;
  Future* future;
  Error* error;  // XLA takes it
};

struct Text {
  const char* begin;
  size_t size;
};

struct CallFrame;

// Handlers for the stages of a program; only the last one must be there.
struct HandlerBundle {
  void* instantiate;
  void* prepare;
  void* initialize;
  Error* (*execute)(CallFrame*);
};

struct HandlerRegisterArguments {
  size_t struct_size;
  Extension* extensions;
  Text name;
  Text platform;
  HandlerBundle bundle;
  uint32_t traits;
};

// Functions that are not called here are plain pointers, which keep the places of the others.
struct Api {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*error_create)(ErrorCreateArguments*);
  void* error_get_message;
  void* error_destroy;
  Error* (*handler_register)(HandlerRegisterArguments*);
  Error* (*stream_get)(StreamGetArguments*);
  void* type_register;
  void* execution_get;
  void* state_set;
  void* state_get;
  void* device_memory_allocate;
  void* device_memory_free;
  void* thread_pool_schedule;
  void* thread_pool_size;
  Error* (*future_create)(FutureCreateArguments*);
  Error* (*future_set_available)(FutureAvailableArguments*);
  Error* (*future_set_error)(FutureErrorArguments*);
};

struct Buffer {
  size_t struct_size;
  Extension* extensions;
  int data_type;
  void* data;
  int64_t rank;
  int64_t* dimensions;
};

// Arguments or results: all are buffers.
struct Buffers {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* kinds;
  Buffer** buffers;
};

constexpr int kAttributeIsText = 4;

struct Attributes {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* kinds;
  Text** names;
  void** values;
};

struct CallFrame {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  Execution* execution;
  int stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
  Future* future;  // out: the call is over when it is set; until then XLA keeps all buffers
};

}  // namespace byteps::python::xla
