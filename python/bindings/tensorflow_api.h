// The parts of TensorFlow's C interface for operations and kernels that this package uses. The
// functions are looked up in the TensorFlow that the process has loaded, so nothing of TensorFlow
// is needed to build, and one binary serves all its versions from 2.15 on. All types are opaque.
#pragma once

#include <cstddef>
#include <cstdint>

#include "python/bindings/status_code.h"

namespace byteps::python::tensorflow {

struct Status;
struct Tensor;
struct OperationBuilder;
struct ShapeContext;
struct ShapeHandle;
struct KernelBuilder;
struct KernelConstruction;
struct KernelContext;
struct Done;  // see OwnDone in tensorflow_call.h

using Create = void* (*)(KernelConstruction*);
using ComputeAsync = void (*)(void* kernel, KernelContext*, Done*);
using Delete = void (*)(void* kernel);
using InferShapes = void (*)(ShapeContext*, Status*);

// TensorFlow's functions, by their names without "TF_".
struct Api {
  Status* (*make_status)();
  void (*delete_status)(Status*);
  void (*set_status)(Status*, StatusCode, const char* message);
  StatusCode (*get_code)(const Status*);
  const char* (*message)(const Status*);

  OperationBuilder* (*make_op_definition_builder)(const char* name);
  void (*op_add_attribute)(OperationBuilder*, const char* specification);
  void (*op_add_input)(OperationBuilder*, const char* specification);
  void (*op_add_output)(OperationBuilder*, const char* specification);
  // Makes the operation stateful, whatever the flag says.
  void (*op_set_is_stateful)(OperationBuilder*, bool);
  void (*op_set_shape_inference)(OperationBuilder*, InferShapes);
  void (*register_op_definition)(OperationBuilder*, Status*);  // takes the builder

  int64_t (*shape_input_count)(ShapeContext*);
  ShapeHandle* (*make_shape_handle)();
  void (*delete_shape_handle)(ShapeHandle*);
  void (*shape_get_input)(ShapeContext*, int, ShapeHandle*, Status*);
  void (*shape_set_output)(ShapeContext*, int, ShapeHandle*, Status*);
  ShapeHandle* (*shape_scalar)(ShapeContext*);
  ShapeHandle* (*shape_vector)(ShapeContext*, size_t size);  // size_t(-1): unknown
  int (*shape_rank_is_known)(ShapeContext*, ShapeHandle*);
  int64_t (*shape_rank)(ShapeContext*, ShapeHandle*);
  void (*shape_part)(ShapeContext*, ShapeHandle*, int64_t begin, int64_t end, ShapeHandle* result,
                     Status*);
  void (*shape_concatenate)(ShapeContext*, ShapeHandle*, ShapeHandle*, ShapeHandle* result,
                            Status*);
  void (*shape_set_unknown)(ShapeContext*, Status*);  // of all outputs

  KernelBuilder* (*make_async_kernel_builder)(const char* operation, const char* device, Create,
                                              ComputeAsync, Delete);
  void (*register_kernel_builder)(const char* name, KernelBuilder*, Status*);  // takes the builder
  void (*run_done)(Done*);
  void (*get_attribute_size)(KernelConstruction*, const char* name, int32_t* count, int32_t* bytes,
                             Status*);
  void (*get_attribute_texts)(KernelConstruction*, const char* name, char** texts, size_t* lengths,
                              int count, void* storage, size_t storage_size, Status*);
  void (*fail_construction)(KernelConstruction*, Status*);
  void (*fail)(KernelContext*, Status*);
  int (*input_count)(KernelContext*);
  void (*get_input)(KernelContext*, int, Tensor**, Status*);
  int (*output_type)(KernelContext*, int);
  Tensor* (*allocate_output)(KernelContext*, int, int type, const int64_t* dimensions, int count,
                             size_t bytes, Status*);
  Tensor* (*forward_or_allocate)(KernelContext*, const int* inputs, int input_count, int output,
                                 const int64_t* dimensions, int count, int* forwarded, Status*);

  size_t (*type_size)(int type);
  int (*tensor_type)(const Tensor*);
  int (*dimensions)(const Tensor*);
  int64_t (*dimension)(const Tensor*, int);
  void* (*data)(const Tensor*);
  void (*delete_tensor)(Tensor*);
};

// Returns null if the process has not loaded TensorFlow, or if its version lacks a function. The
// first call looks the functions up.
const Api* FindApi();

}  // namespace byteps::python::tensorflow
