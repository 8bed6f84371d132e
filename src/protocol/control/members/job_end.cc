#include "src/protocol/control/members/job_end.h"

#include <utility>

namespace byteps::protocol {

void JobEnd::End(const Status& why) { Tell(why, {why.code(), why.message()}); }

void JobEnd::EndInOrder(const std::string& text) { Tell(Status::Ok(), {StatusCode::kOk, text}); }

void JobEnd::Tell(const Status& how, wire::JobOver message) {
  if (std::exchange(over_, true)) return;
  message_ = std::move(message);
  for (const auto& [id, member] : roster_.all()) driver_.Send(id, message_);
  driver_.Finish(how);
}

}  // namespace byteps::protocol
