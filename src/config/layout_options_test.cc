// Jobs whose machines have different numbers of workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/config/job_variables_for_test.h"
#include "src/config/options.h"

namespace byteps::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Returns the options of a worker in a job of two machines with 2 and 1 workers.
Result<Options> Unequal(Environment::Variables changes) {
  changes.emplace("BYTEPS_LOCAL_SIZES", "2,1");
  return LoadOptions(Environment(JobVariables(changes)), {});
}

std::string RefusalOf(Environment::Variables changes) {
  const Result<Options> options = Unequal(std::move(changes));
  return options.ok() ? "no error" : options.status().message();
}

TEST(LayoutOptionsTest, AWorkerFindsItsPlaceInTheList) {
  const Result<Options> last = Unequal({});
  ASSERT_TRUE(last.ok()) << last.status().ToString();
  EXPECT_EQ(last->local_size, 1);
  EXPECT_EQ(WorkerCount(last.value()), 3);
  EXPECT_EQ(GlobalRank(last.value()), 2);
  EXPECT_TRUE(IsDistributed(last.value()));
  const Result<Options> second = Unequal({{"DMLC_WORKER_ID", "0"}, {"BYTEPS_LOCAL_RANK", "1"}});
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(second->local_size, 2);
  EXPECT_EQ(GlobalRank(second.value()), 1);
  EXPECT_EQ(LayoutOf(second.value()), MachineLayout({2, 1}));
  EXPECT_EQ(Unequal({{"BYTEPS_LOCAL_SIZES", " 2 , 1 "}})->local_size, 1);
  EXPECT_TRUE(Unequal({{"BYTEPS_LOCAL_SIZE", "1"}}).ok()) << "it may be told, too";
}

TEST(LayoutOptionsTest, ServicesNeedNotBeToldAndAreToldRightIfTheyAre) {
  for (const char* role : {"server", "scheduler"}) {
    const Result<Options> told = Unequal({{"DMLC_ROLE", role}});
    ASSERT_TRUE(told.ok()) << told.status().ToString();
    EXPECT_EQ(LayoutOf(told.value()), MachineLayout({2, 1}));
    EXPECT_EQ(Unequal({{"DMLC_ROLE", role}, {"BYTEPS_LOCAL_SIZE", "2"}})->local_sizes, "2,1");
    EXPECT_TRUE(Unequal({{"DMLC_ROLE", role}, {"BYTEPS_LOCAL_SIZES", ""}}).ok());
    EXPECT_THAT(RefusalOf({{"DMLC_ROLE", role}, {"DMLC_NUM_WORKER", "3"}}),
                HasSubstr("2 machines"));
  }
}

TEST(LayoutOptionsTest, EqualNumbersAreTheOldContract) {
  const Result<Options> listed = Unequal({{"BYTEPS_LOCAL_SIZES", "2,2"}});
  ASSERT_TRUE(listed.ok()) << listed.status().ToString();
  EXPECT_EQ(listed->local_size, 2);
  EXPECT_EQ(LayoutOf(listed.value()), MachineLayout::Equal(2, 2));
}

TEST(LayoutOptionsTest, AListOfOneMachineNeedsNoServer) {
  const Result<Options> options = Unequal({{"DMLC_NUM_WORKER", "1"},
                                           {"DMLC_NUM_SERVER", "0"},
                                           {"BYTEPS_LOCAL_SIZES", "3"},
                                           {"DMLC_WORKER_ID", "0"},
                                           {"BYTEPS_LOCAL_RANK", "2"}});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_TRUE(SumsLocally(options.value()));
  EXPECT_EQ(options->local_size, 3);
  EXPECT_EQ(GlobalRank(options.value()), 2);
}

// A job that has neither an address nor an id would meet the workers of another such job.
TEST(LayoutOptionsTest, AJobWithoutServersHasSomethingThatOthersDoNotHave) {
  using Variables = Environment::Variables;
  const auto load = [](const Variables& more) {
    Variables variables = {{"DMLC_NUM_WORKER", "1"},
                           {"DMLC_NUM_SERVER", "0"},
                           {"BYTEPS_LOCAL_SIZE", "2"},
                           {"BYTEPS_LOCAL_RANK", "1"}};
    variables.insert(more.begin(), more.end());
    return LoadOptions(Environment(std::move(variables)), {});
  };
  const std::pair<const std::string, std::string> host = {"DMLC_PS_ROOT_URI", "10.0.0.1"};
  const std::pair<const std::string, std::string> port = {"DMLC_PS_ROOT_PORT", "9000"};
  for (const Variables& lacking : {Variables{}, Variables{host}, Variables{port}}) {
    const Result<Options> options = load(lacking);
    ASSERT_FALSE(options.ok());
    EXPECT_THAT(options.status().message(),
                AllOf(HasSubstr(host.first), HasSubstr(port.first), HasSubstr("BYTEPS_JOB_ID"),
                      HasSubstr("bps run")));
  }
  for (const Variables& enough : {Variables{host, port}, Variables{{"BYTEPS_JOB_ID", "mine"}},
                                  Variables{{"BYTEPS_JOB_SECRET", "mine"}}}) {
    EXPECT_TRUE(load(enough).ok());
  }
}

TEST(LayoutOptionsTest, ContradictionsNameBothSides) {
  EXPECT_THAT(RefusalOf({{"DMLC_NUM_WORKER", "3"}}),
              AllOf(HasSubstr("local_sizes=2,1"), HasSubstr("num_worker=3")));
  EXPECT_THAT(RefusalOf({{"BYTEPS_LOCAL_SIZE", "2"}}),
              AllOf(HasSubstr("local_size=2"), HasSubstr("must be 1"), HasSubstr("worker_id=1")));
  EXPECT_THAT(RefusalOf({{"BYTEPS_LOCAL_RANK", "1"}}), HasSubstr("local_size=1"));
  EXPECT_THAT(RefusalOf({{"DMLC_WORKER_ID", "2"}}), HasSubstr("num_worker=2"));
  EXPECT_THAT(RefusalOf({{"BYTEPS_GLOBAL_RANK", "3"}}), HasSubstr("must be below 3"));
  for (const char* bad : {"2,0", "2,,1", "2,1025", "2;1", "2,1,,", ",", "-1,2", "2(x2)"}) {
    EXPECT_THAT(RefusalOf({{"BYTEPS_LOCAL_SIZES", bad}}), HasSubstr("numbers from 1 to 1024"))
        << bad;
  }
}

// All workers of a job cut and widen tensors in the same way, including a worker that is alone on
// its machine.
TEST(LayoutOptionsTest, MachinesSumIfOneOfThemCan) {
  const auto is_one = [](Environment::Variables changes) {
    return IsOneOfMachine(Unequal(std::move(changes)).value());
  };
  for (const char* how : {"auto", "1"}) {
    for (const char* machine : {"0", "1"}) {
      const Options options =
          Unequal({{"DMLC_WORKER_ID", machine}, {"BYTEPS_LOCAL_REDUCE", how}}).value();
      EXPECT_TRUE(MachinesSum(options)) << how << machine;
      EXPECT_FALSE(WhyNotOneOfMachine(options).has_value()) << "there is nothing to say";
    }
    EXPECT_TRUE(is_one({{"DMLC_WORKER_ID", "0"}, {"BYTEPS_LOCAL_REDUCE", how}}));
    EXPECT_FALSE(is_one({{"BYTEPS_LOCAL_REDUCE", how}})) << "a plain member";
  }
  EXPECT_FALSE(MachinesSum(Unequal({{"BYTEPS_LOCAL_REDUCE", "0"}}).value()));
  const Options large = Unequal({{"BYTEPS_LOCAL_SIZES", "2,65"}}).value();
  EXPECT_TRUE(MachinesSum(large));
  EXPECT_THAT(WhyNotOneOfMachine(large).value_or(""), HasSubstr("65 workers"));
  EXPECT_TRUE(is_one({{"BYTEPS_LOCAL_SIZES", "2,65"}, {"DMLC_WORKER_ID", "0"}}));
  EXPECT_FALSE(MachinesSum(Unequal({{"BYTEPS_LOCAL_SIZES", "1,65"}}).value()));
}

// A job loses a machine as a whole, so each machine checks that the job can do without it.
TEST(LayoutOptionsTest, AMachineIsOneMemberOnlyIfTheJobMayLoseIt) {
  const auto is_one = [](const char* machine) {
    return IsOneOfMachine(Unequal({{"BYTEPS_LOCAL_SIZES", "3,2"},
                                   {"DMLC_WORKER_ID", machine},
                                   {"BYTEPS_LOCAL_REDUCE", "1"},
                                   {"BYTEPS_MIN_WORKERS", "3"}})
                              .value());
  };
  EXPECT_FALSE(is_one("0")) << "two would be left";
  EXPECT_TRUE(is_one("1"));
}

TEST(LayoutOptionsTest, TwoWorkersWhoseServersAreBesideThemDoNotSumFirst) {
  const auto options = [](const char* how, const char* root, const char* size) {
    return LoadOptions(Environment({{"BYTEPS_LOCAL_REDUCE", how},
                                    {"BYTEPS_LOCAL_SIZE", size},
                                    {"DMLC_NUM_WORKER", "1"},
                                    {"DMLC_NUM_SERVER", "1"},
                                    {"DMLC_PS_ROOT_URI", root},
                                    {"DMLC_PS_ROOT_PORT", "9000"},
                                    {"DMLC_WORKER_ID", "0"},
                                    {"BYTEPS_LOCAL_RANK", "0"},
                                    {"BYTEPS_FORCE_DISTRIBUTED", "1"}}),
                       {})
        .value();
  };
  for (const char* root : {"127.0.0.1", "localhost", "::1"}) {
    EXPECT_FALSE(MachinesSum(options("auto", root, "2"))) << root;
    EXPECT_THAT(WhyNotOneOfMachine(options("auto", root, "2")).value_or(""),
                HasSubstr("the servers are on this machine, too"));
    EXPECT_TRUE(IsOneOfMachine(options("auto", root, "3")));
    EXPECT_TRUE(IsOneOfMachine(options("1", root, "2")));
  }
  EXPECT_TRUE(IsOneOfMachine(options("auto", "10.0.0.1", "2"))) << "servers may be elsewhere";
}

TEST(LayoutOptionsTest, TheOrderOfSumsIsOneOfTwoAndItsGroupANumber) {
  EXPECT_FALSE(SameBits(Unequal({}).value()));
  EXPECT_FALSE(SameBits(Unequal({{"BYTEPS_SAME_BITS", "0"}}).value()));
  EXPECT_TRUE(SameBits(Unequal({{"BYTEPS_SAME_BITS", " 1 "}}).value()));
  EXPECT_EQ(Unequal({})->sum_group, 1);
  EXPECT_EQ(Unequal({{"BYTEPS_SUM_GROUP", "3"}})->sum_group, 3);
  EXPECT_THAT(
      RefusalOf({{"BYTEPS_SAME_BITS", "exact"}}),
      AllOf(HasSubstr("same_bits=exact (BYTEPS_SAME_BITS)"), HasSubstr("no exact sums yet")));
  EXPECT_THAT(RefusalOf({{"BYTEPS_SUM_GROUP", "0"}}), HasSubstr("an integer from 1 to 1024"));
}

TEST(LayoutOptionsTest, WhatVariablesSayOfSumsOnGpus) {
  EXPECT_EQ(Unequal({})->device_sums, "window");
  EXPECT_EQ(Unequal({})->pcie_switch_size, 0);
  EXPECT_THAT(ReduceRoots(Unequal({}).value()), IsEmpty());
  EXPECT_EQ(Unequal({{"BYTEPS_PCIE_SWITCH_SIZE", "4"}})->pcie_switch_size, 4);
  EXPECT_THAT(ReduceRoots(Unequal({{"BYTEPS_REDUCE_ROOTS", "0, 4"}}).value()), ElementsAre(0, 4));
  EXPECT_THAT(RefusalOf({{"BYTEPS_REDUCE_ROOTS", "0,1024"}}), HasSubstr("local ranks below 1024"));
  EXPECT_THAT(RefusalOf({{"BYTEPS_DEVICE_SUMS", "nccl"}, {"BYTEPS_LOCAL_REDUCE", "0"}}),
              AllOf(HasSubstr("device_sums=nccl (BYTEPS_DEVICE_SUMS)"),
                    HasSubstr("workers of a machine sum together")));
  EXPECT_TRUE(Unequal({{"BYTEPS_DEVICE_SUMS", "nccl"},
                       {"DMLC_NUM_WORKER", "1"},
                       {"DMLC_NUM_SERVER", "0"},
                       {"BYTEPS_LOCAL_SIZES", "3"},
                       {"DMLC_WORKER_ID", "0"},
                       {"BYTEPS_LOCAL_RANK", "2"}})
                  .ok());
  EXPECT_THAT(RefusalOf({{"BYTEPS_DEVICE_SUMS", "nccl"}, {"BYTEPS_SAME_BITS", "1"}}),
              HasSubstr("order of its own"));
  EXPECT_EQ(Unequal({{"BYTEPS_DEVICE_SUMS", "Host"}})->device_sums, "host");
  EXPECT_FALSE(Unequal({})->cuda_launches_block);
  EXPECT_FALSE(Unequal({{"CUDA_LAUNCH_BLOCKING", "0"}})->cuda_launches_block);
  EXPECT_TRUE(Unequal({{"CUDA_LAUNCH_BLOCKING", "1"}})->cuda_launches_block);
}

}  // namespace
}  // namespace byteps::config
