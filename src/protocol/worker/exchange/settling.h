// Finds out whether other members still depend on verdicts that the lanes hold. The front asks all
// lanes. The worker has settled when every lane has answered the last question. A view may move a
// verdict to a lane that has answered already, so after each view the front asks again. One thread
// at a time.
#pragma once

#include <cstdint>

#include "src/protocol/worker/exchange/mail.h"

namespace byteps::protocol {

class Settling {
 public:
  // Returns the next question, for each of `lanes`. Answers to earlier questions no longer count.
  to_lane::Settle Ask(uint32_t lanes) {
    asks_ = true;
    silent_ = lanes;
    return {++question_};
  }
  // Returns whether the front has asked before: then it asks again after a view.
  bool asks() const { return asks_; }
  // Takes the answer of a lane. Returns true if it was the last lane to answer this question.
  bool OnAnswer(const to_front::Settled& answer) {
    return answer.question == question_ && silent_ > 0 && --silent_ == 0;
  }

 private:
  bool asks_ = false;
  uint64_t question_ = 0;
  uint32_t silent_ = 0;  // lanes that have not answered it
};

}  // namespace byteps::protocol
