#include "src/transport/address.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace byteps::transport {
namespace {

TEST(ParseHostPortTest, ReadsNamesAndLiterals) {
  struct Case {
    const char* text;
    const char* host;
    uint16_t port;
  };
  for (const Case& c : {Case{"node7:80", "node7", 80}, Case{"10.0.0.1:0", "10.0.0.1", 0},
                        Case{"[::1]:65535", "::1", 65535}, Case{":9000", "", 9000},
                        Case{"[fe80::1%eth0]:1", "fe80::1%eth0", 1}}) {
    auto parsed = ParseHostPort(c.text);
    ASSERT_TRUE(parsed.ok()) << c.text << parsed.status().ToString();
    EXPECT_EQ(parsed->host, c.host);
    EXPECT_EQ(parsed->port, c.port);
    EXPECT_EQ(FormatHostPort(parsed->host, parsed->port), c.text);
  }
}

TEST(ParseHostPortTest, RefusesTheRestAndNamesIt) {
  for (const char* text : {"", "host", "host:", "host:-1", "host:65536", "host:1x", "::1:80",
                           "[::1]", "[::1]80", "[::1:80", "[]:80", "host: 80"}) {
    auto parsed = ParseHostPort(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find("'" + std::string(text) + "'"), std::string::npos);
  }
}

TEST(ParseHostPortTest, SaysThatABracketIsOpen) {
  EXPECT_NE(ParseHostPort("[::1:80").status().message().find("']' is missing"), std::string::npos);
}

TEST(CidrTest, ContainsWhatBeginsAlike) {
  struct Case {
    const char* cidr;
    const char* address;
    bool inside;
  };
  for (const Case& c :
       {Case{"10.0.0.0/8", "10.255.1.2", true}, Case{"10.0.0.0/8", "11.0.0.1", false},
        Case{"192.168.4.0/22", "192.168.7.255", true}, Case{"192.168.4.0/22", "192.168.8.0", false},
        Case{"0.0.0.0/0", "1.2.3.4", true}, Case{"0.0.0.0/0", "::1", false},
        Case{"fd00::/8", "fd12:3456::1", true}, Case{"fd00::/8", "fe80::1", false},
        Case{"10.0.0.7", "10.0.0.7", true}, Case{"10.0.0.7", "10.0.0.8", false},
        Case{"10.0.0.0/8", "::ffff:10.1.1.1", true}, Case{"fe80::/10", "fe80::1%eth0", true}}) {
    auto cidr = ParseCidr(c.cidr);
    auto address = ParseIpAddress(c.address);
    ASSERT_TRUE(cidr.ok()) << c.cidr;
    ASSERT_TRUE(address.ok()) << c.address;
    EXPECT_EQ(Contains(cidr.value(), address.value()), c.inside) << c.cidr << " " << c.address;
  }
}

TEST(CidrTest, RefusesWhatIsNone) {
  for (const char* text : {"", "/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0/8",
                           "fd00::/129", "eth0", "10.0.0.0/8x"}) {
    EXPECT_FALSE(ParseCidr(text).ok()) << text;
  }
}

class PickAddressTest : public ::testing::Test {
 protected:
  std::vector<InterfaceAddress> candidates_ = {
      {"lo", "127.0.0.1", true},       {"lo", "::1", true},
      {"eth0", "fe80::5%eth0", false}, {"eth0", "fd00::5", false},
      {"eth0", "192.168.1.5", false},  {"eth1", "10.0.0.5", false},
      {"ib0", "10.1.0.5", false}};

  std::string Pick(const AddressChoice& choice, const std::string& route = "") {
    auto picked = PickAddress(choice, candidates_, route);
    return picked.ok() ? picked.value() : "error: " + picked.status().message();
  }
};

TEST_F(PickAddressTest, TheRouteDecidesUnlessSomethingElseIsWished) {
  EXPECT_EQ(Pick({}, "10.0.0.5"), "10.0.0.5");
  EXPECT_EQ(Pick({}, "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(Pick({.interface = "ib"}, "10.0.0.5"), "10.1.0.5");
  EXPECT_EQ(Pick({.interface = "eth"}, "10.0.0.5"), "10.0.0.5");
  EXPECT_EQ(Pick({.interface = "eth0"}, "fd00::5"), "fd00::5");
}

TEST_F(PickAddressTest, WithoutARouteIpv4OfARealInterfaceComesFirst) {
  EXPECT_EQ(Pick({}), "192.168.1.5");
  EXPECT_EQ(Pick({.interface = "lo"}), "127.0.0.1");
}

TEST_F(PickAddressTest, WishesRestrict) {
  EXPECT_EQ(Pick({.cidr = "10.0.0.0/8"}), "10.0.0.5");
  EXPECT_EQ(Pick({.cidr = "fd00::/8"}), "fd00::5");
  EXPECT_EQ(Pick({.interface = "ib0", .cidr = "10.0.0.0/8"}), "10.1.0.5");
}

TEST_F(PickAddressTest, AnErrorNamesTheWishAndListsWhatThereIs) {
  auto picked = PickAddress({.interface = "wlan", .cidr = "10.0.0.0/8"}, candidates_, "");
  ASSERT_FALSE(picked.ok());
  EXPECT_EQ(picked.status().code(), StatusCode::kInvalidArgument);
  for (const char* part : {"'wlan'", "'10.0.0.0/8'", "192.168.1.5 (eth0)", "10.1.0.5 (ib0)"}) {
    EXPECT_NE(picked.status().message().find(part), std::string::npos) << picked.status().message();
  }
  EXPECT_FALSE(PickAddress({.cidr = "x"}, candidates_, "").ok());
}

class PickAnnouncementTest : public PickAddressTest {
 protected:
  std::string Announced(std::string_view root, std::string_view local,
                        std::string_view outward = "") {
    Announcement chosen = PickAnnouncement(root, local, outward, candidates_);
    EXPECT_FALSE(chosen.why.empty());
    return chosen.address;
  }
};

TEST_F(PickAnnouncementTest, TheRouteToTheCoordinatorDecides) {
  EXPECT_EQ(Announced("node7", "10.0.0.5", "192.168.1.5"), "10.0.0.5");
  EXPECT_EQ(Announced("node7", "fe80::5%eth0", "192.168.1.5"), "fe80::5%eth0");
  EXPECT_EQ(Announced("node7", "inproc", "192.168.1.5"), "inproc");
}

TEST_F(PickAnnouncementTest, LoopbackIsAnnouncedOnlyWhereTheUserSaysSo) {
  for (const char* root : {"localhost", "127.0.0.1", "127.0.1.1", "::1"}) {
    EXPECT_EQ(Announced(root, "127.0.0.1", "10.0.0.5"), "127.0.0.1") << root;
  }
  // In Debian's /etc/hosts the machine's own name stands for 127.0.1.1.
  EXPECT_EQ(Announced("node7", "127.0.0.1", "10.0.0.5"), "10.0.0.5");
  EXPECT_EQ(Announced("node7", "::1", "fd00::5"), "fd00::5");
  Announcement chosen = PickAnnouncement("node7", "127.0.0.1", "10.0.0.5", candidates_);
  EXPECT_NE(chosen.why.find("'node7' stands for loopback"), std::string::npos) << chosen.why;
}

TEST_F(PickAnnouncementTest, WithoutAWayOutItIsAnInterfaceThatIsUp) {
  EXPECT_EQ(Announced("node7", "127.0.0.1"), "192.168.1.5");
  EXPECT_EQ(Announced("node7", "127.0.0.1", "127.0.0.1"), "192.168.1.5");
  candidates_ = {{"lo", "127.0.0.1", true}, {"eth0", "fe80::5%eth0", false}};
  EXPECT_EQ(Announced("node7", "127.0.0.1"), "127.0.0.1") << "no other host can reach any";
  candidates_.clear();
  EXPECT_EQ(Announced("node7", "127.0.0.1"), "127.0.0.1");
}

TEST(AddressTest, Loopback) {
  for (const char* text : {"127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsLoopback(ParseIpAddress(text).value())) << text;
  }
  for (const char* text : {"128.0.0.1", "10.0.0.127", "::2", "fd00::1", "::"}) {
    EXPECT_FALSE(IsLoopback(ParseIpAddress(text).value())) << text;
  }
}

TEST(ListenHostTest, OwnAddressesAloneAreListenedOn) {
  for (const char* own : {"127.0.0.1", "127.3.2.1", "::1"}) EXPECT_EQ(ListenHost(own), own);
  Result<std::vector<InterfaceAddress>> all = ListAddresses();
  ASSERT_TRUE(all.ok());
  for (const InterfaceAddress& one : all.value()) {
    EXPECT_EQ(ListenHost(one.address), one.address);
  }
  // The host is an address of another host, or a name, for which others may know another address of
  // this host.
  for (const char* other : {"192.0.2.1", "2001:db8::1", "localhost", "", "no.such.host"}) {
    EXPECT_EQ(ListenHost(other), "");
  }
}

TEST(ListAddressesTest, TheLoopbackHasANetworkOfEightBits) {
  Result<std::vector<InterfaceAddress>> all = ListAddresses();
  ASSERT_TRUE(all.ok());
  for (const InterfaceAddress& one : all.value()) {
    if (one.address == "127.0.0.1") {
      EXPECT_EQ(one.prefix_bits, 8);
    }
    if (one.address == "::1") {
      EXPECT_EQ(one.prefix_bits, 128);
    }
    EXPECT_GE(one.prefix_bits, 1) << one.address;
  }
}

TEST(LoopbackTest, HostsThatKeepAJobOnOneMachine) {
  for (const char* host : {"127.0.0.1", "127.0.1.1", "::1", "localhost"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"10.0.0.1", "", "a.host", "fe80::1"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

TEST(ResolveHostTest, AnAddressIsItselfAndANameMeansThisHostIfItCan) {
  EXPECT_EQ(ResolveHost("10.9.9.9", "127.0.0.1:1").value(), "10.9.9.9");
  EXPECT_EQ(ResolveHost("fd00::5", "127.0.0.1:1").value(), "fd00::5");
  auto local = ResolveHost("localhost", "127.0.0.1:1");
  ASSERT_TRUE(local.ok()) << local.status().ToString();
  EXPECT_TRUE(local.value() == "127.0.0.1" || local.value() == "::1") << local.value();
  EXPECT_FALSE(ResolveHost("localhost", "no route").ok()) << "others would not find it";
  auto wrong = ResolveHost(std::string(300, 'x'), "127.0.0.1:1");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find("xxx"), std::string::npos);
}

TEST(ChooseAnnouncementTest, OnThisMachineItIsWhatPickAnnouncementSays) {
  EXPECT_EQ(ChooseAnnouncement("127.0.0.1:1", "127.0.0.1").address, "127.0.0.1");
  EXPECT_EQ(ChooseAnnouncement("node7:1", "10.9.9.9").address, "10.9.9.9");
  Announcement named = ChooseAnnouncement("node7:1", "127.0.0.1");
  bool has_other = named.why.find("no other address") == std::string::npos;
  EXPECT_EQ(IsLoopback(ParseIpAddress(named.address).value()), !has_other) << named.address;
}

TEST(ChooseAddressTest, TheRouteToLoopbackStartsAtLoopback) {
  auto v4 = ChooseAddress({.target = "127.0.0.1:4711"});
  ASSERT_TRUE(v4.ok()) << v4.status().ToString();
  EXPECT_EQ(v4.value(), "127.0.0.1");
  auto v6 = ChooseAddress({.target = "[::1]:4711"});
  ASSERT_TRUE(v6.ok()) << v6.status().ToString();
  EXPECT_EQ(v6.value(), "::1");
}

TEST(ChooseAddressTest, AnInterfaceOverridesTheRoute) {
  auto chosen = ChooseAddress({.target = "127.0.0.1:1", .interface = "lo"});
  ASSERT_TRUE(chosen.ok()) << chosen.status().ToString();
  EXPECT_EQ(chosen.value(), "127.0.0.1");
  auto missing = ChooseAddress({.target = "127.0.0.1:1", .interface = "no-such-interface"});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("127.0.0.1 (lo)"), std::string::npos);
}

TEST(ChooseAddressTest, ATargetThatCannotBeResolvedIsNamed) {
  auto chosen = ChooseAddress({.target = "no-such-host.invalid:1"});
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(chosen.status().message().find("no-such-host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace byteps::transport
