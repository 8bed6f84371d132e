#include "python/bindings/tensorflow_kernels.h"

#include <dlfcn.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings/call_error.h"
#include "python/bindings/tensorflow_api.h"
#include "python/bindings/tensorflow_call.h"
#include "python/bindings/xla_handler.h"

namespace byteps::python {
namespace nb = nanobind;
namespace tensorflow {
namespace {

constexpr const char* kBeginModule = "byteps.tensorflow.kernels";
constexpr const char* kTextsAttribute = "calls";

constexpr const char* kSameOperation = "BytepsExchange";
constexpr const char* kRowsOperation = "BytepsRows";
constexpr const char* kNumberOperation = "BytepsNumber";

// An input without meaning, which for TensorFlow may change. Without it, TensorFlow would run an
// exchange of constants while it optimizes the graph, and again if that fails.
constexpr const char* kGate = "gate: double";

// A kernel's copy of the facts about its operation.
struct Kernel {
  Kind kind;
  std::vector<std::string> texts;  // one for each part
};

// A status that this object owns.
class OwnStatus {
 public:
  explicit OwnStatus(const Api& api) : api_(api), status_(api.make_status()) {}
  OwnStatus(const OwnStatus&) = delete;
  OwnStatus& operator=(const OwnStatus&) = delete;
  ~OwnStatus() { api_.delete_status(status_); }
  Status* get() const { return status_; }
  bool ok() const { return api_.get_code(status_) == StatusCode::kOk; }

 private:
  const Api& api_;
  Status* const status_;
};

std::vector<std::string> TextsOf(const Api& api, KernelConstruction* construction, Status* status) {
  int32_t count = 0;
  int32_t bytes = 0;
  api.get_attribute_size(construction, kTextsAttribute, &count, &bytes, status);
  if (api.get_code(status) != StatusCode::kOk) return {};
  const auto size = static_cast<size_t>(count);
  std::vector<char*> begins(size);
  std::vector<size_t> lengths(size);
  std::vector<char> storage(static_cast<size_t>(bytes) + 1);
  api.get_attribute_texts(construction, kTextsAttribute, begins.data(), lengths.data(), count,
                          storage.data(), storage.size(), status);
  std::vector<std::string> texts;
  if (api.get_code(status) != StatusCode::kOk) return texts;
  for (size_t i = 0; i < size; ++i) texts.emplace_back(begins[i], lengths[i]);
  return texts;
}

template <Kind kind>
void* CreateKernel(KernelConstruction* construction) {
  const Api& api = *FindApi();
  const OwnStatus status(api);
  auto kernel = std::make_unique<Kernel>(Kernel{kind, TextsOf(api, construction, status.get())});
  if (!status.ok()) api.fail_construction(construction, status.get());
  return kernel.release();  // DeleteKernel
}

void DeleteKernel(void* kernel) { std::unique_ptr<Kernel>(static_cast<Kernel*>(kernel)); }

// Lets Python start the exchange. An exception ends the part.
void Begin(const nb::object& begin, const std::shared_ptr<KernelPart>& part) {
  try {
    begin(part);
  } catch (nb::python_error& error) {
    if (part->is_accepted()) return DropError(error, "the start of an operation of TensorFlow");
    const CallError ours = TakeError(error);
    part->Fail(ours.code, ours.text);
  }
}

void StartParts(const Kernel& kernel, const std::shared_ptr<KernelRun>& run) {
  nb::gil_scoped_acquire acquire;
  std::vector<std::shared_ptr<KernelPart>> parts;
  for (const std::string& text : kernel.texts) {
    parts.push_back(std::make_shared<KernelPart>(run, static_cast<int>(parts.size()), text));
  }
  nb::object begin;
  try {
    begin = nb::module_::import_(kBeginModule).attr("begin");
  } catch (nb::python_error& error) {
    const CallError ours = TakeError(error);
    for (const auto& part : parts) part->Fail(ours.code, ours.text);
    return;
  }
  for (const auto& part : parts) Begin(begin, part);
}

// Never blocks, except for the interpreter's lock.
void Compute(void* kernel_pointer, KernelContext* context, Done* done) {
  const Kernel& kernel = *static_cast<const Kernel*>(kernel_pointer);
  const auto parts = static_cast<int>(kernel.texts.size());
  auto run = std::make_shared<KernelRun>(*FindApi(), kernel.kind, parts, context,
                                         *reinterpret_cast<OwnDone*>(done));
  const std::string problem = run->TakeTensors();
  if (problem.empty()) return StartParts(kernel, run);
  for (int i = 0; i < parts; ++i) run->EndPart(BYTEPS_INTERNAL, problem);
}

void InferSame(ShapeContext* context, Status* status) {
  const Api& api = *FindApi();
  ShapeHandle* shape = api.make_shape_handle();
  for (int i = 0; i + 1 < api.shape_input_count(context); ++i) {  // the last one is the gate
    api.shape_get_input(context, i, shape, status);
    if (api.get_code(status) == StatusCode::kOk) api.shape_set_output(context, i, shape, status);
  }
  api.delete_shape_handle(shape);
}

void InferRows(ShapeContext* context, Status* status) {
  const Api& api = *FindApi();
  api.shape_set_unknown(context, status);
  ShapeHandle* shape = api.make_shape_handle();
  api.shape_get_input(context, 0, shape, status);
  ShapeHandle* some = api.shape_vector(context, static_cast<size_t>(-1));
  if (api.get_code(status) == StatusCode::kOk && api.shape_rank_is_known(context, shape) != 0) {
    const int64_t rank = api.shape_rank(context, shape);
    if (rank > 1) {
      api.shape_part(context, shape, 1, rank, shape, status);
      api.shape_concatenate(context, some, shape, shape, status);
      api.shape_set_output(context, 0, shape, status);
    } else {
      api.shape_set_output(context, 0, some, status);
    }
  }
  api.shape_set_output(context, 1, some, status);
  api.delete_shape_handle(some);
  api.delete_shape_handle(shape);
}

void InferNumber(ShapeContext* context, Status* status) {
  const Api& api = *FindApi();
  ShapeHandle* scalar = api.shape_scalar(context);
  api.shape_set_output(context, 0, scalar, status);
  api.delete_shape_handle(scalar);
}

void RegisterOperations(const Api& api, Status* status) {
  OperationBuilder* same = api.make_op_definition_builder(kSameOperation);
  api.op_add_attribute(same, "T: list(type) >= 1");
  api.op_add_attribute(same, "calls: list(string)");
  api.op_add_input(same, "tensors: T");
  api.op_add_input(same, kGate);
  api.op_add_output(same, "results: T");
  api.op_set_shape_inference(same, &InferSame);
  api.register_op_definition(same, status);

  OperationBuilder* rows = api.make_op_definition_builder(kRowsOperation);
  api.op_add_attribute(rows, "T: type");
  api.op_add_attribute(rows, "calls: list(string)");
  api.op_add_input(rows, "tensor: T");
  api.op_add_input(rows, "splits: int32");
  api.op_add_input(rows, kGate);
  api.op_add_output(rows, "rows: T");
  api.op_add_output(rows, "counts: int32");
  api.op_set_shape_inference(rows, &InferRows);
  api.register_op_definition(rows, status);

  // The operation is stateful, so that TensorFlow runs it each time.
  OperationBuilder* number = api.make_op_definition_builder(kNumberOperation);
  api.op_add_attribute(number, "calls: list(string)");
  api.op_add_output(number, "number: int32");
  api.op_set_is_stateful(number, true);
  api.op_set_shape_inference(number, &InferNumber);
  api.register_op_definition(number, status);
}

template <Kind kind>
void RegisterKernel(const Api& api, const char* operation, Status* status) {
  KernelBuilder* builder =
      api.make_async_kernel_builder(operation, "CPU", &CreateKernel<kind>, &Compute, &DeleteKernel);
  api.register_kernel_builder(operation, builder, status);
}

// Registers everything. Returns the error, or null.
const char* Register() {
  const Api* api = FindApi();
  if (api == nullptr) return "this TensorFlow has no C interface for asynchronous kernels";
  if (!CanCopyDone(*api)) return "TensorFlow was built with another standard library of C++";
  const OwnStatus status(*api);
  RegisterOperations(*api, status.get());
  RegisterKernel<Kind::kSame>(*api, kSameOperation, status.get());
  RegisterKernel<Kind::kRows>(*api, kRowsOperation, status.get());
  RegisterKernel<Kind::kNumber>(*api, kNumberOperation, status.get());
  return status.ok() ? nullptr : "TensorFlow has refused the operations";
}

}  // namespace
}  // namespace tensorflow

namespace {

// The function by which TensorFlow's own XLA gives its interface to custom calls. The name is
// mangled, but the function has no C++ types.
constexpr const char* kXlaLibrary = "libtensorflow_cc.so.2";
constexpr const char* kXlaFunction = "_ZN3xla3ffi12GetXlaFfiApiEv";

// Registers the custom call `name` with the XLA of the TensorFlow that the process has loaded.
// Returns the error, or an empty text.
std::string RegisterWithXla(const std::string& name) {
  static constexpr char kPlatform[] = "Host";
  void* library = dlopen(kXlaLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return "TensorFlow has no library of the name that is looked for";
  auto* get = reinterpret_cast<const xla::Api* (*)()>(dlsym(library, kXlaFunction));
  if (get == nullptr) return "TensorFlow has no interface for custom calls of XLA";
  const xla::Api& api = *get();
  xla::HandlerRegisterArguments arguments{sizeof(arguments),
                                          nullptr,
                                          {name.data(), name.size()},
                                          {kPlatform, sizeof(kPlatform) - 1},
                                          {nullptr, nullptr, nullptr, &HandleXlaCall},
                                          0};
  return api.handler_register(&arguments) == nullptr ? "" : "XLA has refused the custom call";
}

}  // namespace

void BindTensorflow(nb::module_& module) {
  using tensorflow::KernelPart;
  nb::class_<KernelPart, Ending>(module, "KernelPart")
      .def_prop_ro("text", &KernelPart::text)
      .def_prop_ro("inputs", &KernelPart::inputs)
      .def("output", &KernelPart::Output, nb::arg("shape"))
      .def("expect_result", &KernelPart::ExpectResult)
      .def("answer", &KernelPart::Answer, nb::arg("number"));
  module.def("register_with_xla_of_tensorflow", &RegisterWithXla, nb::arg("name"));
  module.def(
      "tensorflow_code",
      [](int code) { return static_cast<int>(StatusCodeOf(static_cast<byteps_code>(code))); },
      nb::arg("code"));
}

}  // namespace byteps::python

const char* byteps_register_tensorflow() { return byteps::python::tensorflow::Register(); }
