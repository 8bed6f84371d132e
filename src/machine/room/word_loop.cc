#include "src/machine/room/word_loop.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

namespace byteps::machine {
namespace {

uint64_t ThisThread() { return std::hash<std::thread::id>()(std::this_thread::get_id()) | 1; }

Status NoConnections() {
  return {StatusCode::kUnavailable, "a job on one machine without servers has no connections"};
}

}  // namespace

// Shares the due work with the loop, which may be running it when the timer is destroyed.
class WordLoop::DueTimer final : public transport::Loop::Timer {
 public:
  explicit DueTimer(std::shared_ptr<Due> due) : due_(std::move(due)) {}
  ~DueTimer() override { due_->work = nullptr; }

 private:
  const std::shared_ptr<Due> due_;
};

WordLoop::WordLoop(local::Window& window, Steps steps)
    : window_(window), steps_(std::move(steps)) {}

WordLoop::~WordLoop() = default;

void WordLoop::Run() {
  // Nobody else can end the wait of helpers.
  struct Ends {
    WordLoop& loop;
    ~Ends() { loop.EndHelp(); }
  } ends{*this};
  while (true) {
    uint32_t events = window_.Events();
    Time until;
    {
      std::lock_guard<std::mutex> lock(owner_);
      thread_.store(ThisThread());
      runs_ = false;  // stays false when something is thrown
      if (thrown_ != nullptr) std::rethrow_exception(thrown_);
      bool did = RunOnce() || HasPosted();
      thread_.store(0);
      if (!did && stopped_.load()) return;
      runs_ = true;
      if (did && is_helped_.load()) Wake();  // the wait of the helper may be over
      if (did) continue;
      until = sleeps_until_ = FirstDue();
    }
    window_.Sleep(events, until);
  }
}

Time WordLoop::FirstDue() const { return dues_.empty() ? Time::max() : dues_.begin()->first; }

bool WordLoop::RunOnce() {
  bool did = RunPosted();
  did = RunDue() || did;
  did = steps_.step() || did;
  window_.WakeSleepers();
  return did;
}

void WordLoop::Offer(const std::function<void()>& post) {
  offers_.fetch_add(1);
  try {
    post();
  } catch (...) {
    offers_.fetch_sub(1);
    Wake();  // others may have posted meanwhile
    throw;
  }
  offers_.fetch_sub(1);
  RunOffered();
}

void WordLoop::RunOffered() {
  std::unique_lock<std::mutex> lock(owner_, std::try_to_lock);
  if (!lock.owns_lock()) return Wake();
  if (!runs_ || thrown_ != nullptr) return;
  thread_.store(ThisThread());
  is_lent_ = true;
  bool more = true;
  try {
    while (RunPosted()) {
    }
    more = steps_.short_step == nullptr || steps_.short_step() || HasPosted();
    more = more || FirstDue() < sleeps_until_;
    window_.WakeSleepers();
  } catch (...) {
    thrown_ = std::current_exception();
  }
  is_lent_ = false;
  thread_.store(0);
  lock.unlock();
  if (more) Wake();
}

void WordLoop::Help(const std::function<bool()>& over, Time deadline) {
  if (InLoop() || is_helped_.exchange(true)) return;
  constexpr int kTurnsAfterwards = 2;  // spares the loop's own thread a wake-up
  uint32_t seen = 0;
  Helped turn;
  for (int turns = 0; turns < kTurnsAfterwards;) {
    seen = window_.Events();
    turn = HelpOnce();
    if (!turn.may_go_on) break;
    if (over() || help_is_over_.load() || stopped_.load() || Now() >= deadline) {
      if (!turn.did) break;
      ++turns;
    } else if (!turn.did) {
      window_.SetAside(seen);
      window_.Sleep(seen, std::min(deadline, turn.due));
    }
  }
  window_.PutBack();
  is_helped_.store(false);
  const bool more = turn.did || turn.is_due_early || stopped_.load();
  if (more || window_.Events() != seen) Wake();
}

WordLoop::Helped WordLoop::HelpOnce() {
  std::unique_lock<std::mutex> lock(owner_, std::try_to_lock);
  Helped turn;
  if (!lock.owns_lock() || !runs_ || thrown_ != nullptr) return turn;
  thread_.store(ThisThread());
  try {
    turn.did = RunOnce() || HasPosted();
  } catch (...) {
    thrown_ = std::current_exception();
  }
  thread_.store(0);
  turn.due = FirstDue();
  turn.is_due_early = turn.due < sleeps_until_;
  turn.may_go_on = thrown_ == nullptr;
  return turn;
}

void WordLoop::EndHelp() {
  help_is_over_.store(true);
  Wake();
}

void WordLoop::Stop() {
  stopped_.store(true);
  Wake();
}

void WordLoop::Post(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    posted_.push_back(std::move(work));
  }
  // The thread that does the loop's work, or is about to, finds the posted work itself.
  if (offers_.load() == 0 && !InLoop()) Wake();
}

bool WordLoop::HasPosted() {
  MutexLock lock(mutex_);
  return !posted_.empty();
}

bool WordLoop::InLoop() const { return thread_.load() == ThisThread(); }

Time WordLoop::Now() const { return std::chrono::steady_clock::now(); }

bool WordLoop::RunPosted() {
  std::vector<std::function<void()>> posted;
  {
    MutexLock lock(mutex_);
    posted.swap(posted_);
  }
  for (std::function<void()>& work : posted) work();
  return !posted.empty();
}

bool WordLoop::RunDue() {
  bool ran = false;
  const Time now = Now();
  while (!dues_.empty() && dues_.begin()->first <= now) {
    auto first = dues_.extract(dues_.begin());
    std::shared_ptr<Due> due = std::move(first.mapped());
    if (due->work == nullptr) continue;
    ran = true;
    std::function<void()> work = due->work;  // the work may destroy the timer
    if (due->period > Duration::zero()) dues_.emplace(now + due->period, due);
    work();
  }
  return ran;
}

std::unique_ptr<transport::Loop::Timer> WordLoop::Add(Duration delay, Due due) {
  auto shared = std::make_shared<Due>(std::move(due));
  dues_.emplace(Now() + delay, shared);
  return std::make_unique<DueTimer>(std::move(shared));
}

std::unique_ptr<transport::Loop::Timer> WordLoop::Every(Duration period,
                                                        std::function<void()> tick) {
  return Add(period, {std::move(tick), period});
}

std::unique_ptr<transport::Loop::Timer> WordLoop::After(Duration delay,
                                                        std::function<void()> work) {
  return Add(delay, {std::move(work), Duration::zero()});
}

Result<std::unique_ptr<transport::Listener>> WordLoop::Listen(
    const std::string&, std::function<void(std::unique_ptr<transport::Connection>)>) {
  return NoConnections();
}

void WordLoop::Connect(const std::string&, Duration,
                       std::function<void(Result<std::unique_ptr<transport::Connection>>)> done) {
  Post([done = std::move(done)] { done(NoConnections()); });
}

}  // namespace byteps::machine
