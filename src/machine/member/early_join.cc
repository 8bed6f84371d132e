#include "src/machine/member/early_join.h"

#include <string>
#include <utility>
#include <variant>

#include "src/runtime/loop_thread.h"

namespace byteps::machine {
namespace {

// The limit for a call on the loop, which never blocks but may have ended.
constexpr Duration kLoopLimit = seconds(10);

wire::Join EarlyJoinOf(wire::Join join, const std::string& machine) {
  join.contributor = "machine " + machine;
  join.contributor_size = join.local_size;
  join.meets = true;
  return join;
}

}  // namespace

EarlyJoin::EarlyJoin(transport::Transport& transport, const runtime::ControlLinkOptions& control,
                     wire::Join join, const std::string& machine, Log& log)
    : log_(log),
      membership_(EarlyJoinOf(std::move(join), machine)),
      loop_(transport.MakeLoop()),
      link_(*loop_, control, log,
            {[this] { link_.Send(membership_.Greeting()); },
             [this](const wire::Message& message) { OnMessage(message); },
             [this](const Status& why) { Fail(why); }}) {
  link_.Start();
  thread_ = std::thread([this] {
    Status how = runtime::RunLoop(*loop_);
    if (!how.ok()) Fail(how);
  });
}

EarlyJoin::~EarlyJoin() {
  loop_->Stop();
  thread_.join();
  link_.Close();
}

Status EarlyJoin::failure() {
  MutexLock lock(mutex_);
  return failure_;
}

void EarlyJoin::Retire() {
  (void)runtime::AskLoop(*loop_, kLoopLimit, [this] {
    link_.EndWithConnection();
    return Status::Ok();
  });
}

void EarlyJoin::OnMessage(const wire::Message& message) {
  protocol::Membership::Step step = membership_.OnMessage(message);
  if (step.answer.has_value()) link_.Send(*step.answer);
  if (const auto* waiting = std::get_if<wire::Waiting>(&message)) log_.Waiting(waiting->text);
  if (const auto* refused = std::get_if<wire::Refused>(&message)) {
    Fail({refused->code, refused->text});
  }
  if (const auto* over = std::get_if<wire::JobOver>(&message)) {
    Status why(over->code, over->text);
    Fail(why.ok() ? Status(StatusCode::kShutdown, "the job is over") : why);
  }
}

void EarlyJoin::Fail(const Status& why) {
  MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = why;
}

}  // namespace byteps::machine
