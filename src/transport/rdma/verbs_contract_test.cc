// The contract that this project expects of any libibverbs. The stand-in keeps it, too.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <set>
#include <string>

#include "src/transport/rdma/verbs_pair_for_test.h"
#include "src/transport/rdma/verbs_standin_for_test.h"

namespace byteps::transport {
namespace {

class VerbsContractTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<Verbs> loaded = LoadVerbs(standin::LibraryPath());
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    verbs_ = loaded.value();
    device_ = std::make_unique<OpenedDevice>(verbs_, NameOfDevice(0));
    ASSERT_NE(device_->context, nullptr);
    ends_[0] = std::make_unique<PairEnd>(*device_);
    // Between two devices all goes over their link.
    if (NameOfDevice(1) != NameOfDevice(0)) {
      other_ = std::make_unique<OpenedDevice>(verbs_, NameOfDevice(1));
      ASSERT_NE(other_->context, nullptr);
    }
    ends_[1] = std::make_unique<PairEnd>(other_ == nullptr ? *device_ : *other_);
  }
  void TearDown() override {
    for (auto& end : ends_) end.reset();
    other_.reset();
    device_.reset();
  }
  // Returns a name of TEST_RDMA_DEVICES, such as "mlx5_0" or "rxe1,rxe3"; empty: the first device.
  static std::string NameOfDevice(size_t end) {
    // tidy-allow(environment): the lane `rdma` runs this program in another way than ctest does.
    const char* text = std::getenv("TEST_RDMA_DEVICES");
    const std::string names = text == nullptr ? "" : text;
    const size_t comma = names.find(',');
    return end == 0 || comma == std::string::npos ? names.substr(0, comma)
                                                  : names.substr(comma + 1);
  }

  PairEnd& A() { return *ends_[0]; }
  PairEnd& B() { return *ends_[1]; }

  // Connects both ends. Each has posted `receives` places from 0 on.
  void Connect(uint64_t receives = kDepth) {
    for (auto& end : ends_) {
      ASSERT_EQ(end->Initialize(), 0);
      for (uint64_t i = 0; i < receives; ++i) ASSERT_EQ(end->PostReceive(i), 0);
    }
    ASSERT_EQ(A().MakeReadyToReceive(B()), 0);
    ASSERT_EQ(B().MakeReadyToReceive(A()), 0);
    ASSERT_EQ(A().MakeReadyToSend(), 0);
    ASSERT_EQ(B().MakeReadyToSend(), 0);
  }
  static ibv_wc AwaitOne(ibv_cq* queue) { return PairEnd::Await(queue, 1)[0]; }

  Verbs verbs_;
  std::unique_ptr<OpenedDevice> device_;
  std::unique_ptr<OpenedDevice> other_;
  std::unique_ptr<PairEnd> ends_[2];
};

TEST_F(VerbsContractTest, TheListOfDevicesEndsWithNull) {
  int count = -1;
  ibv_device** list = verbs_.get_device_list(&count);
  ASSERT_GT(count, 0);
  EXPECT_EQ(list[count], nullptr);
  EXPECT_FALSE(std::string(verbs_.get_device_name(list[0])).empty());
  verbs_.free_device_list(list);
}

TEST_F(VerbsContractTest, ADeviceTellsItsLimits) {
  ibv_device_attr attr{};
  ASSERT_EQ(verbs_.query_device(device_->context, &attr), 0);
  EXPECT_GE(attr.max_sge, 2);
  EXPECT_GE(attr.max_qp_wr, static_cast<int>(kDepth));
  EXPECT_GE(attr.max_cqe, static_cast<int>(2 * kDepth));
  EXPECT_GE(attr.phys_port_cnt, 1);
}

TEST_F(VerbsContractTest, APortTellsItsStateAndItsPacketSize) {
  ibv_port_attr attr{};
  ASSERT_EQ(verbs_.query_port(device_->context, 1, &attr), 0);
  EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
  EXPECT_GE(attr.active_mtu, IBV_MTU_256);
  EXPECT_LE(attr.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
}

TEST_F(VerbsContractTest, TheOwnAddressIsInTheTableOfGids) {
  ibv_gid none{};
  EXPECT_NE(std::memcmp(device_->gid.raw, none.raw, sizeof(none.raw)), 0);
  ibv_gid_entry entry{};
  EXPECT_NE(verbs_.query_gid_ex(device_->context, 1, 10000, &entry, 0, sizeof(entry)), 0);
}

TEST_F(VerbsContractTest, AMessageOfTwoPartsFillsTwoParts) {
  Connect(0);
  ASSERT_EQ(B().PostReceive(0, {B().Part(0, 0, 160), B().Part(1, 0, kPlaceBytes)}), 0);
  std::memset(A().Place(kDepth), 1, 160);
  std::memset(A().Place(kDepth + 1), 2, 1000);
  ASSERT_EQ(A().PostSend(5, {A().Part(kDepth, 0, 160), A().Part(kDepth + 1, 0, 1000)}), 0);
  ibv_wc came = AwaitOne(B().received);
  EXPECT_EQ(came.status, IBV_WC_SUCCESS);
  EXPECT_EQ(came.byte_len, 1160u);
  EXPECT_EQ(B().Place(0)[159], std::byte{1});
  EXPECT_EQ(B().Place(1)[0], std::byte{2});
  EXPECT_EQ(B().Place(1)[999], std::byte{2});
  AwaitOne(A().sent);
}

TEST_F(VerbsContractTest, MessagesComeInOrderAndWithTheNumbersOfTheirPlaces) {
  Connect();
  for (uint64_t i = 0; i < kDepth; ++i) {
    ASSERT_EQ(A().SendText(kDepth + i, "text " + std::to_string(i)), 0);
  }
  auto came = PairEnd::Await(B().received, kDepth);
  auto gone = PairEnd::Await(A().sent, kDepth);
  for (uint64_t i = 0; i < kDepth; ++i) {
    EXPECT_EQ(came[i].wr_id, i);
    EXPECT_EQ(came[i].qp_num, B().pair->qp_num);
    EXPECT_EQ(B().Text(came[i]), "text " + std::to_string(i));
    EXPECT_EQ(gone[i].wr_id, kDepth + i);
  }
}

TEST_F(VerbsContractTest, AnIdentifierComesBackWithAllItsBits) {
  Connect(0);
  constexpr uint64_t kOdd = 0xfedcba9876543210;
  ASSERT_EQ(B().PostReceive(kOdd, {B().Part(0, 0, 64)}), 0);
  ASSERT_EQ(A().PostSend(~kOdd, {A().Part(kDepth, 0, 8)}), 0);
  EXPECT_EQ(AwaitOne(B().received).wr_id, kOdd);
  EXPECT_EQ(AwaitOne(A().sent).wr_id, ~kOdd);
}

TEST_F(VerbsContractTest, AChainLeavesInOrderWithOneCall) {
  Connect();
  std::vector<ibv_sge> parts(4);
  std::vector<ibv_send_wr> chain(4);
  for (uint64_t i = 0; i < chain.size(); ++i) {
    parts[i] = A().Part(kDepth + i, 0, 100 + i);
    chain[i] = {};
    chain[i].wr_id = i;
    chain[i].next = i + 1 < chain.size() ? &chain[i + 1] : nullptr;
    chain[i].sg_list = &parts[i];
    chain[i].num_sge = 1;
    chain[i].opcode = IBV_WR_SEND;
    chain[i].send_flags = i + 1 == chain.size() ? IBV_SEND_SIGNALED : 0;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(A().pair, chain.data(), &bad), 0);
  auto came = PairEnd::Await(B().received, chain.size());
  for (uint32_t i = 0; i < chain.size(); ++i) EXPECT_EQ(came[i].byte_len, 100 + i);
  AwaitOne(A().sent);
}

TEST_F(VerbsContractTest, OnlyAMessageThatAsksForItHasACompletion) {
  Connect();
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(A().SendText(kDepth + i, "x", 0), 0);
  ASSERT_EQ(A().SendText(kDepth + 5, "y"), 0);
  PairEnd::Await(B().received, 6);
  EXPECT_EQ(AwaitOne(A().sent).wr_id, kDepth + 5) << "it stands for all before it";
  ibv_wc more{};
  EXPECT_EQ(ibv_poll_cq(A().sent, 1, &more), 0);
  for (uint64_t i = 0; i < kDepth; ++i) EXPECT_EQ(A().SendText(kDepth + i, "z", 0), 0) << i;
}

TEST_F(VerbsContractTest, InlineBytesMayBeReusedAtOnce) {
  ASSERT_GE(A().inline_max, 64u);
  Connect();
  ASSERT_EQ(A().SendText(kDepth, "first", IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  std::memset(A().Place(kDepth), 0, 5);
  EXPECT_EQ(B().Text(AwaitOne(B().received)), "first");
  AwaitOne(A().sent);
}

TEST_F(VerbsContractTest, AFullQueueRefusesTheMessageThatDoesNotFit) {
  Connect(0);  // nothing is received, so nothing is acknowledged
  for (uint64_t i = 0; i < kDepth; ++i) ASSERT_EQ(A().SendText(kDepth + i, "x"), 0);
  // A device may have more room than it was asked for.
  bool is_refused = false;
  for (uint64_t i = 0; i < 1000 && !is_refused; ++i) is_refused = A().SendText(kDepth, "x") != 0;
  EXPECT_TRUE(is_refused);
}

TEST_F(VerbsContractTest, AStateThatDoesNotFitRefusesWork) {
  EXPECT_NE(A().SendText(kDepth, "x"), 0) << "not connected";
  ASSERT_EQ(A().Initialize(), 0);
  EXPECT_EQ(A().PostReceive(0), 0) << "places may be posted before the connection";
  EXPECT_NE(A().MakeReadyToSend(), 0) << "a step was left out";
}

TEST_F(VerbsContractTest, AMessageThatComesTooEarlyIsRepeated) {
  for (auto& end : ends_) ASSERT_EQ(end->Initialize(), 0);
  ASSERT_EQ(B().PostReceive(0), 0);
  ASSERT_EQ(A().MakeReadyToReceive(B()), 0);
  ASSERT_EQ(A().MakeReadyToSend(), 0);
  ASSERT_EQ(A().SendText(kDepth, "early"), 0);
  // tidy-allow(sleep): it gives the device time for a mistake.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_EQ(B().MakeReadyToReceive(A()), 0);
  EXPECT_EQ(B().Text(AwaitOne(B().received)), "early");
  EXPECT_EQ(AwaitOne(A().sent).status, IBV_WC_SUCCESS);
}

TEST_F(VerbsContractTest, AMessageThatFindsNoPlaceWaitsForOne) {
  Connect(0);
  ASSERT_EQ(A().SendText(kDepth, "late"), 0);
  // tidy-allow(sleep): it gives the device time for a mistake.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_EQ(B().PostReceive(0), 0);
  EXPECT_EQ(B().Text(AwaitOne(B().received)), "late");
}

TEST_F(VerbsContractTest, AMessageThatIsTooLongEndsBothPairs) {
  Connect(0);
  ASSERT_EQ(B().PostReceive(0, {B().Part(0, 0, 64)}), 0);
  ASSERT_EQ(A().PostSend(1, {A().Part(kDepth, 0, 65)}), 0);
  // Devices differ in the error that they report.
  EXPECT_NE(AwaitOne(B().received).status, IBV_WC_SUCCESS);
  EXPECT_NE(AwaitOne(A().sent).status, IBV_WC_SUCCESS);
  ASSERT_EQ(A().SendText(kDepth, "behind it"), 0);
  EXPECT_EQ(AwaitOne(A().sent).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(VerbsContractTest, APairInErrorGivesBackAllPlaces) {
  Connect(4);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(verbs_.modify_qp(A().pair, &attr, IBV_QP_STATE), 0);
  std::set<uint64_t> back;
  for (const ibv_wc& completion : PairEnd::Await(A().received, 4)) {
    EXPECT_EQ(completion.status, IBV_WC_WR_FLUSH_ERR);
    back.insert(completion.wr_id);
  }
  EXPECT_EQ(back.size(), 4u);
}

TEST_F(VerbsContractTest, APlaceInMemoryOfAnotherKeyIsAnError) {
  Connect(0);
  ibv_sge wrong = B().Part(0, 0, 64);
  wrong.lkey ^= 0x5555;
  // Some devices find it when it is posted.
  if (B().PostReceive(0, {wrong}) != 0) return;
  ASSERT_EQ(A().SendText(kDepth, "x"), 0);
  EXPECT_NE(AwaitOne(B().received).status, IBV_WC_SUCCESS);
}

TEST_F(VerbsContractTest, ADestroyedPairTouchesNoPlaceAndLeavesTheQueueOfOthersWhole) {
  Connect();
  ASSERT_EQ(A().SendText(kDepth, "x"), 0);
  AwaitOne(B().received);
  B().DestroyPair();
  std::memset(B().Place(1), 7, kPlaceBytes);
  A().SendText(kDepth, "y");
  // tidy-allow(sleep): it gives the device time for a mistake.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(B().Place(1)[0], std::byte{7});
  EXPECT_EQ(B().Place(1)[kPlaceBytes - 1], std::byte{7});
}

TEST_F(VerbsContractTest, AnArmedQueueWakesOnceAndAQueueThatIsNotArmedNever) {
  Connect();
  ASSERT_EQ(A().SendText(kDepth, "not armed"), 0);
  AwaitOne(B().received);
  EXPECT_FALSE(B().HasEvent(0));
  ASSERT_EQ(ibv_req_notify_cq(B().received, 0), 0);
  ASSERT_EQ(A().SendText(kDepth + 1, "wakes"), 0);
  ASSERT_EQ(A().SendText(kDepth + 2, "wakes nobody again"), 0);
  ASSERT_TRUE(B().HasEvent(30000));
  PairEnd::Await(B().received, 2);
  ibv_cq* queue = nullptr;
  void* user = nullptr;
  ASSERT_EQ(verbs_.get_cq_event(B().channel, &queue, &user), 0);
  EXPECT_EQ(queue, B().received);
  EXPECT_EQ(user, &B());
  verbs_.ack_cq_events(queue, 1);
  EXPECT_NE(verbs_.get_cq_event(B().channel, &queue, &user), 0);
  EXPECT_EQ(errno, EAGAIN);
}

// A reader must therefore poll once more between arming and sleeping.
TEST_F(VerbsContractTest, WhatCameBeforeArmingIsFoundByPolling) {
  Connect();
  ASSERT_EQ(A().SendText(kDepth, "before"), 0);
  AwaitOne(A().sent);
  ASSERT_EQ(ibv_req_notify_cq(B().received, 0), 0);
  EXPECT_EQ(B().Text(AwaitOne(B().received)), "before");
}

TEST_F(VerbsContractTest, ObjectsInUseAreNotDestroyed) {
  EXPECT_EQ(verbs_.destroy_cq(A().sent), EBUSY);
  EXPECT_EQ(verbs_.dealloc_pd(device_->domain), EBUSY);
}

TEST_F(VerbsContractTest, WithoutAnEventNobodyWaits) {
  int fd = device_->context->async_fd;
  ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_async_event event{};
  EXPECT_NE(verbs_.get_async_event(device_->context, &event), 0);
}

}  // namespace
}  // namespace byteps::transport
