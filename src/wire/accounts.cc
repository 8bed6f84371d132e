#include "src/wire/accounts.h"

namespace byteps::wire {

const char* TextFor(UseStage stage) {
  switch (stage) {
    case UseStage::kNotBegun: return "not begun";
    case UseStage::kDeclares: return "asks what the name stands for";
    case UseStage::kPrepares: return "prepares its pieces";
    case UseStage::kExchanges: return "waits for the sum";
    case UseStage::kEnded: return "has ended";
    case UseStage::kJoined: return "has joined";
    case UseStage::kAwaitsInput: return "waits for its input on a device";
  }
  return "";
}

}  // namespace byteps::wire
