#include "src/transport/tcp/resolver.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <asio/executor_work_guard.hpp>

#include "src/base/thread_annotations.h"

namespace byteps::transport {
namespace {

constexpr auto kAnswerPatience = std::chrono::seconds(60);

// A name server that answers only when it is told to. The threads that wait share it.
class NameServer {
 public:
  Result<Endpoints> Ask(const std::string&, uint16_t port) {
    auto until = std::chrono::steady_clock::now() + kAnswerPatience;
    MutexLock lock(mutex_);
    ++asked_;
    changed_.notify_all();
    while (!answers_ && lock.WaitUntil(changed_, until)) {
    }
    ++answered_;
    changed_.notify_all();
    return Endpoints{{asio::ip::address_v4::loopback(), port}};
  }
  void Answer() {
    MutexLock lock(mutex_);
    answers_ = true;
    changed_.notify_all();
  }
  bool WaitUntil(int asked, int answered) {
    auto until = std::chrono::steady_clock::now() + kAnswerPatience;
    MutexLock lock(mutex_);
    while (asked_ < asked || answered_ < answered) {
      if (!lock.WaitUntil(changed_, until)) return false;
    }
    return true;
  }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  int asked_ BYTEPS_GUARDED_BY(mutex_) = 0;
  int answered_ BYTEPS_GUARDED_BY(mutex_) = 0;
  bool answers_ BYTEPS_GUARDED_BY(mutex_) = false;
};

class ResolverTest : public ::testing::Test {
 protected:
  std::unique_ptr<Resolver> MakeResolver() {
    return std::make_unique<Resolver>(io_,
                                      [server = server_](const std::string& host, uint16_t port) {
                                        return server->Ask(host, port);
                                      });
  }

  asio::io_context io_;
  std::shared_ptr<NameServer> server_ = std::make_shared<NameServer>();
};

TEST_F(ResolverTest, AnAnswerComesOnTheLoop) {
  auto work = asio::make_work_guard(io_);  // the loop waits for work that is not posted yet
  auto resolver = MakeResolver();
  std::optional<Endpoints> found;
  resolver->Resolve("a", 7, [&](Result<Endpoints> result) { found = result.value(); });
  server_->Answer();
  EXPECT_TRUE(server_->WaitUntil(1, 1));
  EXPECT_FALSE(found.has_value());
  io_.run_one_for(kAnswerPatience);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->at(0).port(), 7);
}

// The loop may close while a name server is silent; the late answer then goes to nobody.
TEST_F(ResolverTest, NobodyWaitsForAnAnswerAtTheEnd) {
  auto resolver = MakeResolver();
  auto alive = std::make_shared<int>(1);
  resolver->Resolve("a", 7, [alive](const Result<Endpoints>&) { FAIL() << "it was left behind"; });
  ASSERT_TRUE(server_->WaitUntil(1, 0));
  resolver.reset();
  server_->Answer();
  ASSERT_TRUE(server_->WaitUntil(1, 1));
  io_.restart();
  EXPECT_EQ(io_.poll(), 0u);
}

TEST_F(ResolverTest, QuestionsAreBounded) {
  auto work = asio::make_work_guard(io_);
  auto resolver = MakeResolver();
  int answers = 0;
  for (uint32_t i = 0; i < Resolver::kOpenMax; ++i) {
    resolver->Resolve("a", 7, [&](const Result<Endpoints>& result) { answers += result.ok(); });
  }
  std::optional<Status> refused;
  resolver->Resolve("b", 7, [&](Result<Endpoints> result) { refused = result.status(); });
  EXPECT_FALSE(refused.has_value()) << "never from inside the call";
  io_.run_one_for(kAnswerPatience);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code(), StatusCode::kUnavailable);
  server_->Answer();
  while (answers < static_cast<int>(Resolver::kOpenMax))
    ASSERT_EQ(io_.run_one_for(kAnswerPatience), 1u);
  bool again = false;
  resolver->Resolve("c", 7, [&](const Result<Endpoints>& result) { again = result.ok(); });
  io_.run_one_for(kAnswerPatience);
  EXPECT_TRUE(again);
}

TEST(LookUpTest, TheSystemKnowsItsOwnName) {
  Result<Endpoints> found = LookUp("localhost", 7);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  ASSERT_FALSE(found->empty());
  EXPECT_TRUE(found->at(0).address().is_loopback());
  EXPECT_EQ(found->at(0).port(), 7);
  EXPECT_EQ(LookUp("no-such-host.invalid", 7).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace byteps::transport
