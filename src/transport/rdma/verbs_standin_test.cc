// The stand-in is strict, and its faults happen: what a test believes of it is shown here.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

#include "src/transport/rdma/verbs_pair_for_test.h"
#include "src/transport/rdma/verbs_standin_for_test.h"

namespace byteps::transport {
namespace {

class StandinTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<Verbs> loaded = LoadVerbs(standin::LibraryPath());
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    verbs_ = loaded.value();
    control_ = &standin::TheControl();
    control_->Reset();
    Open();
  }
  void TearDown() override {
    Close();
    EXPECT_TRUE(control_->counts().nothing_is_open());
    control_->Reset();
  }

  void Open() {
    device_ = std::make_unique<OpenedDevice>(verbs_);
    for (auto& end : ends_) {
      end = std::make_unique<PairEnd>(*device_);
      if (end->pair == nullptr) return;
      ASSERT_EQ(end->Initialize(), 0);
      for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(end->PostReceive(i), 0);
    }
    for (int i : {0, 1}) ASSERT_EQ(ends_[i]->MakeReadyToReceive(*ends_[1 - i]), 0);
    for (auto& end : ends_) ASSERT_EQ(end->MakeReadyToSend(), 0);
  }
  void Close() {
    for (auto& end : ends_) end.reset();
    device_.reset();
  }

  PairEnd& A() { return *ends_[0]; }
  PairEnd& B() { return *ends_[1]; }
  bool Complained(const std::string& part) {
    for (const std::string& one : control_->complaints()) {
      if (one.find(part) != std::string::npos) return true;
    }
    return false;
  }
  static ibv_wc AwaitOne(ibv_cq* queue) { return PairEnd::Await(queue, 1)[0]; }

  Verbs verbs_;
  standin::Control* control_ = nullptr;
  std::unique_ptr<OpenedDevice> device_;
  std::unique_ptr<PairEnd> ends_[2];
};

TEST_F(StandinTest, ACorrectUserHearsNoComplaint) {
  control_->Delay(1, 200);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(A().SendText(kDepth + i, "text"), 0);
  for (const ibv_wc& one : PairEnd::Await(B().received, 4)) EXPECT_EQ(B().Text(one), "text");
  PairEnd::Await(A().sent, 4);
  EXPECT_TRUE(control_->complaints().empty());
  EXPECT_EQ(control_->counts().messages, 4u);
  EXPECT_EQ(control_->counts().bytes, 16u);
  EXPECT_EQ(control_->counts().not_ready, 0u);
}

TEST_F(StandinTest, AMessageThatIsChangedBeforeItLeavesIsFound) {
  control_->Hold(true);
  ASSERT_EQ(A().SendText(kDepth, "first"), 0);
  A().Place(kDepth)[0] = std::byte{'F'};
  control_->Hold(false);
  AwaitOne(A().sent);
  EXPECT_TRUE(Complained("a posted message was changed"));
}

#ifdef __has_feature
#define BYTEPS_HAS_FEATURE(x) __has_feature(x)
#else
#define BYTEPS_HAS_FEATURE(x) 0
#endif
// ASan reports the access itself.
#if !defined(__SANITIZE_ADDRESS__) && !BYTEPS_HAS_FEATURE(address_sanitizer)
TEST_F(StandinTest, AWriteIntoAPostedPlaceIsFound) {
  B().Place(0)[100] = std::byte{1};
  ASSERT_EQ(A().SendText(kDepth, "text"), 0);
  AwaitOne(B().received);
  EXPECT_TRUE(Complained("wrote into a posted receive buffer"));
}

TEST_F(StandinTest, APostedPlaceHasAPattern) { EXPECT_EQ(B().Place(0)[0], std::byte{0xdb}); }
#endif

TEST_F(StandinTest, MessagesWithoutAPlaceAreCounted) {
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(A().SendText(kDepth + i, "text"), 0);
  PairEnd::Await(B().received, 4);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (control_->counts().not_ready == 0 && std::chrono::steady_clock::now() < deadline) {
    // tidy-allow(sleep): the stand-in tells no event.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(control_->counts().not_ready, 0u);
  ASSERT_EQ(B().PostReceive(4), 0);
  AwaitOne(B().received);
}

TEST_F(StandinTest, MemoryThatIsNotWritableReceivesNothing) {
  PairEnd closed(*device_, 0);
  ASSERT_EQ(closed.Initialize(), 0);
  ASSERT_EQ(closed.PostReceive(0), 0);
  PairEnd from(*device_);
  ASSERT_EQ(from.Initialize(), 0);
  ASSERT_EQ(closed.MakeReadyToReceive(from), 0);
  ASSERT_EQ(from.MakeReadyToReceive(closed), 0);
  ASSERT_EQ(from.MakeReadyToSend(), 0);
  ASSERT_EQ(from.SendText(kDepth, "text"), 0);
  EXPECT_EQ(AwaitOne(closed.received).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(AwaitOne(from.sent).status, IBV_WC_REM_OP_ERR);
}

TEST_F(StandinTest, MemoryThatAWorkRequestNamesStaysRegistered) {
  EXPECT_EQ(verbs_.dereg_mr(A().region), EBUSY);
  EXPECT_TRUE(Complained("deregistered while a work request names it"));
}

TEST_F(StandinTest, AQueueOfCompletionsThatIsTooShortIsFound) {
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kDepth; ++i) {
      ASSERT_EQ(A().SendText(kDepth + i, "x"), 0);
      ASSERT_EQ(B().PostReceive(i % kDepth), 0);
      AwaitOne(B().received);
    }
  }
  EXPECT_TRUE(Complained("a completion queue is too short"));
}

TEST_F(StandinTest, TheMessageThatIsToFailFails) {
  control_->FailMessage(2, IBV_WC_RETRY_EXC_ERR);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(A().SendText(kDepth + i, "text"), 0);
  auto gone = PairEnd::Await(A().sent, 3);
  EXPECT_EQ(gone[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(gone[1].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(gone[2].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(PairEnd::Await(B().received, 1).size(), 1u);
}

TEST_F(StandinTest, APairThatReachesNobodyGivesUp) {
  B().DestroyPair();
  ASSERT_EQ(A().SendText(kDepth, "text"), 0);
  EXPECT_EQ(AwaitOne(A().sent).status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(StandinTest, InSilenceNothingComesAndNobodyIsTold) {
  control_->Silence(true);
  ASSERT_EQ(A().SendText(kDepth, "text"), 0);
  // tidy-allow(sleep): it gives the device time for a mistake.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(A().sent, 1, &none), 0);
  EXPECT_EQ(ibv_poll_cq(B().received, 1, &none), 0);
  control_->Silence(false);
  AwaitOne(B().received);
}

TEST_F(StandinTest, RegisteredMemoryAndQueuePairsHaveLimits) {
  control_->LimitRegisteredBytes(control_->counts().registered_bytes + 100);
  std::vector<std::byte> memory(101);
  EXPECT_EQ(verbs_.reg_mr(device_->domain, memory.data(), 101, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  control_->LimitQueuePairs(2);
  ibv_qp_init_attr init{};
  init.send_cq = A().sent;
  init.recv_cq = A().received;
  init.qp_type = IBV_QPT_RC;
  EXPECT_EQ(verbs_.create_qp(device_->domain, &init), nullptr);
}

TEST_F(StandinTest, ADeviceThatDiesEndsItsPairsAndSaysSo) {
  control_->KillDevice(0);
  EXPECT_EQ(AwaitOne(A().received).status, IBV_WC_WR_FLUSH_ERR);
  ibv_async_event event{};
  ASSERT_EQ(verbs_.get_async_event(device_->context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
  verbs_.ack_async_event(&event);
}

TEST_F(StandinTest, ADeviceThatIsPulledOutOnlySaysSo) {
  control_->LoseDevice(0);
  ASSERT_EQ(A().SendText(kDepth, "lost"), 0);
  ibv_async_event event{};
  ASSERT_EQ(verbs_.get_async_event(device_->context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
  verbs_.ack_async_event(&event);
  // tidy-allow(sleep): it gives the device time for a mistake.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ibv_wc none{};
  for (ibv_cq* queue : {A().sent, A().received, B().sent, B().received}) {
    EXPECT_EQ(ibv_poll_cq(queue, 1, &none), 0);
  }
}

TEST_F(StandinTest, APortThatGoesDownSaysSo) {
  control_->SetPortActive(0, false);
  ibv_async_event event{};
  ASSERT_EQ(verbs_.get_async_event(device_->context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  verbs_.ack_async_event(&event);
  ibv_port_attr attr{};
  ASSERT_EQ(verbs_.query_port(device_->context, 1, &attr), 0);
  EXPECT_EQ(attr.state, IBV_PORT_DOWN);
}

TEST_F(StandinTest, HiddenDevicesAreNotListed) {
  control_->HideDevices(true);
  int count = -1;
  ibv_device** list = verbs_.get_device_list(&count);
  EXPECT_EQ(count, 0);
  verbs_.free_device_list(list);
}

}  // namespace
}  // namespace byteps::transport
