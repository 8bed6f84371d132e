// Whether others depend on what the lanes hold. The front asks all lanes; the worker has settled
// when every lane has answered the last question. A view may move something to a lane that has
// answered, so each view asks a new question. One thread at a time.
#pragma once

#include <cstdint>

#include "src/protocol/worker/mail.h"

namespace byteps::protocol {

class Settling {
 public:
  // The question that each of `lanes` gets next. Answers to earlier ones count no more.
  to_lane::Settle Ask(uint32_t lanes) {
    asks_ = true;
    silent_ = lanes;
    return {++question_};
  }
  // Somebody wants to know: after a view the lanes are to be asked again.
  bool asks() const { return asks_; }
  // A lane holds nothing any more that others depend on. True: it was the last one.
  bool OnAnswer(const to_front::Settled& answer) {
    return answer.question == question_ && silent_ > 0 && --silent_ == 0;
  }

 private:
  bool asks_ = false;
  uint64_t question_ = 0;
  uint32_t silent_ = 0;  // lanes that have not answered it
};

}  // namespace byteps::protocol
