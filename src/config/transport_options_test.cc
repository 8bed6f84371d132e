// The choice between TCP and RDMA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/config/job_variables_for_test.h"
#include "src/config/options.h"

namespace byteps::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Result<Options> WithTransport(Environment::Variables changes) {
  changes.emplace("BYTEPS_JOB_SECRET", "of this test");
  return LoadOptions(Environment(JobVariables(changes)), {});
}

TEST(TransportOptionsTest, TcpIsTheDefaultAndTheVariableChooses) {
  EXPECT_EQ(WithTransport({})->transport, "tcp");
  for (const char* choice : {"tcp", "auto", "rdma"}) {
    EXPECT_EQ(WithTransport({{"BYTEPS_TRANSPORT", choice}})->transport, choice);
  }
  EXPECT_THAT(WithTransport({{"BYTEPS_TRANSPORT", "ucx"}}).status().message(), HasSubstr("auto"));
}

TEST(TransportOptionsTest, TheVariablesOfTheOriginalChooseToo) {
  struct Case {
    const char* variable;
    const char* value;
    const char* transport;
  };
  for (const Case& one : {Case{"DMLC_ENABLE_RDMA", "0", "tcp"},
                          {"DMLC_ENABLE_RDMA", "zmq", "tcp"},
                          {"DMLC_ENABLE_RDMA", "multivan", "tcp"},
                          {"DMLC_ENABLE_RDMA", "1", "rdma"},
                          {"DMLC_ENABLE_RDMA", "ibverbs", "rdma"},
                          {"DMLC_ENABLE_RDMA", "ucx", "auto"},
                          {"DMLC_ENABLE_UCX", "0", "tcp"},
                          {"DMLC_ENABLE_UCX", "1", "auto"}}) {
    const Result<Options> options = WithTransport({{one.variable, one.value}});
    ASSERT_TRUE(options.ok()) << options.status().ToString();
    EXPECT_EQ(options->transport, one.transport) << one.variable << "=" << one.value;
    EXPECT_EQ(options->notices.size(), options->transport == "auto" ? 1U : 0U);
    EXPECT_THAT(options->warnings, IsEmpty());
  }
  EXPECT_EQ(
      WithTransport({{"DMLC_ENABLE_RDMA", "ibverbs"}, {"BYTEPS_TRANSPORT", "tcp"}})->transport,
      "tcp");
  for (const char* unknown : {"fabric", "yes"}) {
    EXPECT_THAT(WithTransport({{"DMLC_ENABLE_RDMA", unknown}}).status().message(),
                HasSubstr("BYTEPS_TRANSPORT"));
  }
}

TEST(TransportOptionsTest, UnderTlsOnlyAutoIsLeft) {
  EXPECT_TRUE(WithTransport({{"BYTEPS_TLS", "1"}, {"BYTEPS_TRANSPORT", "auto"}}).ok());
  EXPECT_THAT(WithTransport({{"BYTEPS_TLS", "1"}, {"BYTEPS_TRANSPORT", "rdma"}}).status().message(),
              HasSubstr("nothing is encrypted over RDMA"));
}

}  // namespace
}  // namespace byteps::config
