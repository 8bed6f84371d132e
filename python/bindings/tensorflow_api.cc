#include "python/bindings/tensorflow_api.h"

#include <dlfcn.h>

#include <optional>

namespace byteps::python::tensorflow {
namespace {

constexpr const char* kLibrary = "libtensorflow_framework.so.2";

// Looks functions up; notes whether one is missing.
class Lookup {
 public:
  explicit Lookup(void* library) : library_(library) {}

  template <typename Function>
  void Find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) is_complete_ = false;
  }

  bool is_complete() const { return is_complete_; }

 private:
  void* library_;
  bool is_complete_ = true;
};

void FindForOperations(Lookup& lookup, Api& api) {
  lookup.Find("TF_NewStatus", api.make_status);
  lookup.Find("TF_DeleteStatus", api.delete_status);
  lookup.Find("TF_SetStatus", api.set_status);
  lookup.Find("TF_GetCode", api.get_code);
  lookup.Find("TF_Message", api.message);
  lookup.Find("TF_NewOpDefinitionBuilder", api.make_op_definition_builder);
  lookup.Find("TF_OpDefinitionBuilderAddAttr", api.op_add_attribute);
  lookup.Find("TF_OpDefinitionBuilderAddInput", api.op_add_input);
  lookup.Find("TF_OpDefinitionBuilderAddOutput", api.op_add_output);
  lookup.Find("TF_OpDefinitionBuilderSetIsStateful", api.op_set_is_stateful);
  lookup.Find("TF_OpDefinitionBuilderSetShapeInferenceFunction", api.op_set_shape_inference);
  lookup.Find("TF_RegisterOpDefinition", api.register_op_definition);
  lookup.Find("TF_ShapeInferenceContextNumInputs", api.shape_input_count);
  lookup.Find("TF_NewShapeHandle", api.make_shape_handle);
  lookup.Find("TF_DeleteShapeHandle", api.delete_shape_handle);
  lookup.Find("TF_ShapeInferenceContextGetInput", api.shape_get_input);
  lookup.Find("TF_ShapeInferenceContextSetOutput", api.shape_set_output);
  lookup.Find("TF_ShapeInferenceContextScalar", api.shape_scalar);
  lookup.Find("TF_ShapeInferenceContextVectorFromSize", api.shape_vector);
  lookup.Find("TF_ShapeInferenceContextRankKnown", api.shape_rank_is_known);
  lookup.Find("TF_ShapeInferenceContextRank", api.shape_rank);
  lookup.Find("TF_ShapeInferenceContextSubshape", api.shape_part);
  lookup.Find("TF_ShapeInferenceContextConcatenateShapes", api.shape_concatenate);
  lookup.Find("TF_ShapeInferenceContextSetUnknownShape", api.shape_set_unknown);
}

void FindForKernels(Lookup& lookup, Api& api) {
  lookup.Find("TF_NewAsyncKernelBuilder", api.make_async_kernel_builder);
  lookup.Find("TF_RegisterKernelBuilder", api.register_kernel_builder);
  lookup.Find("TF_RunAsyncOpKernelDoneCallback", api.run_done);
  lookup.Find("TF_OpKernelConstruction_GetAttrSize", api.get_attribute_size);
  lookup.Find("TF_OpKernelConstruction_GetAttrStringList", api.get_attribute_texts);
  lookup.Find("TF_OpKernelConstruction_Failure", api.fail_construction);
  lookup.Find("TF_OpKernelContext_Failure", api.fail);
  lookup.Find("TF_NumInputs", api.input_count);
  lookup.Find("TF_GetInput", api.get_input);
  lookup.Find("TF_ExpectedOutputDataType", api.output_type);
  lookup.Find("TF_AllocateOutput", api.allocate_output);
  lookup.Find("TF_ForwardInputOrAllocateOutput", api.forward_or_allocate);
  lookup.Find("TF_DataTypeSize", api.type_size);
  lookup.Find("TF_TensorType", api.tensor_type);
  lookup.Find("TF_NumDims", api.dimensions);
  lookup.Find("TF_Dim", api.dimension);
  lookup.Find("TF_TensorData", api.data);
  lookup.Find("TF_DeleteTensor", api.delete_tensor);
}

std::optional<Api> Find() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return std::nullopt;
  Lookup lookup(library);
  Api api{};
  FindForOperations(lookup, api);
  FindForKernels(lookup, api);
  if (!lookup.is_complete()) return std::nullopt;
  return api;
}

}  // namespace

const Api* FindApi() {
  // TensorFlow calls kernels without data of this module, so they find its functions here. Never
  // changed.
  static const std::optional<Api> api = Find();
  return api.has_value() ? &*api : nullptr;
}

}  // namespace byteps::python::tensorflow
