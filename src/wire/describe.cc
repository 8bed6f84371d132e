// Operations and tensors in words.
#include "src/wire/control.h"

namespace byteps::wire {
namespace {

// "float32[3, 4]"; of what has rows of its own on each rank, "float32[any, 4]".
std::string ShapeOf(const TensorSpec& spec) {
  std::string text = byteps::NameOf(spec.dtype) + std::string("[");
  bool any = spec.op == Op::kAllgather || spec.op == Op::kAlltoall;
  if (any) text += spec.shape.empty() ? "any" : "any, ";
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(spec.shape[i]);
  }
  return text + "]";
}

}  // namespace

const char* NameOf(Op op) {
  switch (op) {
    case Op::kSum: return "sum";
    case Op::kAverage: return "average";
    case Op::kMin: return "min";
    case Op::kMax: return "max";
    case Op::kProduct: return "product";
    case Op::kBroadcast: return "broadcast";
    case Op::kAllgather: return "allgather";
    case Op::kBarrier: return "barrier";
    case Op::kReducescatter: return "reducescatter";
    case Op::kAlltoall: return "alltoall";
    case Op::kJoin: return "join";
  }
  return "unknown";
}

std::string Describe(const TensorSpec& spec) {
  std::string text = NameOf(spec.op);
  if (spec.op == Op::kReducescatter) text += std::string(" (") + NameOf(spec.combine) + ")";
  if (spec.op != Op::kBarrier && spec.op != Op::kJoin) text += " of " + ShapeOf(spec);
  if (spec.op == Op::kBroadcast) text += " from rank " + std::to_string(spec.root);
  if (spec.group != 0) text += " in process set " + std::to_string(spec.group);
  if (spec.codec != 0) text += " with codec " + std::to_string(spec.codec);
  if (!spec.detail.empty()) text += " (" + spec.detail + ")";
  return text;
}

}  // namespace byteps::wire
