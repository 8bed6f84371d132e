#include "src/session/trust.h"

#include <gtest/gtest.h>

#include <string>

namespace byteps::session {
namespace {

config::Options WithServers(const std::string& root, const std::string& secret = "") {
  config::Options options;
  options.num_worker = 2;
  options.num_server = 1;
  options.root_host = root;
  options.root_port = 9000;
  options.job_secret = secret;
  return options;
}

config::Options As(Role role, config::Options options) {
  options.role = role;
  return options;
}

Status Checked(config::Options options) {
  Log log("test", "fatal", true);
  options.require_secret = true;
  return CheckProof(options, log);
}

TEST(TrustTest, ASecretIsAProofWhereverTheJobIs) {
  EXPECT_EQ(ProofOf(WithServers("10.0.0.1", "s")), JobProof::kSecret);
  EXPECT_EQ(ProofOf(WithServers("127.0.0.1", "s")), JobProof::kSecret);
}

TEST(TrustTest, OnALoopbackAddressAJobIsOfOneUserForEachRole) {
  for (const std::string root : {"127.0.0.1", "127.0.0.2", "::1", "localhost"}) {
    for (Role role : {Role::kWorker, Role::kServer, Role::kCoordinator}) {
      EXPECT_EQ(ProofOf(As(role, WithServers(root))), JobProof::kOneUser) << root;
      EXPECT_TRUE(Checked(As(role, WithServers(root))).ok()) << root;
    }
  }
}

// A name may stand for a loopback address here, and for another address on other machines.
TEST(TrustTest, EverywhereElseAJobWithoutASecretHasNoProof) {
  for (const std::string root : {"10.0.0.1", "node1", "0.0.0.0", "::"}) {
    for (Role role : {Role::kWorker, Role::kServer, Role::kCoordinator}) {
      EXPECT_EQ(ProofOf(As(role, WithServers(root))), JobProof::kNone) << root;
      const Status refused = Checked(As(role, WithServers(root)));
      EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << root;
      EXPECT_NE(refused.message().find("BYTEPS_JOB_SECRET"), std::string::npos);
    }
  }
}

TEST(TrustTest, WhatHasNoPortIsOfOneUser) {
  config::Options alone;
  EXPECT_EQ(ProofOf(alone), JobProof::kOneUser);
  config::Options in_window;
  in_window.local_size = 4;
  in_window.root_host = "10.0.0.1";  // nobody uses it
  EXPECT_EQ(ProofOf(in_window), JobProof::kOneUser);
}

TEST(TrustTest, ObjectsNeedAProofOrTheUsersWord) {
  EXPECT_TRUE(TakesObjects(WithServers("127.0.0.1")));
  EXPECT_TRUE(TakesObjects(WithServers("10.0.0.1", "s")));
  config::Options open = WithServers("10.0.0.1");
  EXPECT_FALSE(TakesObjects(open));
  open.allow_objects = true;
  EXPECT_TRUE(TakesObjects(open));
  EXPECT_EQ(ProofOf(open), JobProof::kNone);
}

}  // namespace
}  // namespace byteps::session
