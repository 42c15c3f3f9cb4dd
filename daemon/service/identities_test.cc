#include "daemon/service/identities.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace hugepool::service {
namespace {

Caller Of(uid_t uid) {
  Caller caller;
  caller.who.uid = uid;
  caller.denied = absl::OkStatus();
  return caller;
}

TEST(Identities, FindsWhomItWasTold) {
  Identities identities;
  EXPECT_FALSE(identities.Find("fd:7").has_value());
  EXPECT_TRUE(identities.Set(7, Of(1000)));
  EXPECT_TRUE(identities.Set(5000, Of(1001)));
  EXPECT_EQ(identities.Find("fd:7")->who.uid, 1000u);
  EXPECT_EQ(identities.Find("fd:5000")->who.uid, 1001u);
  EXPECT_FALSE(identities.Find("fd:8").has_value()) << "beside one";
  EXPECT_FALSE(identities.Find("fd:3000").has_value());
  // The number is accepted again.
  EXPECT_TRUE(identities.Set(7, Of(1002)));
  EXPECT_EQ(identities.Find("fd:7")->who.uid, 1002u);
}

TEST(Identities, WhatIsNoConnectionOfOursIsNobody) {
  Identities identities;
  EXPECT_TRUE(identities.Set(7, Of(1000)));
  for (const char* peer :
       {"", "fd:", "fd:x", "fd:-7", "7", "unix:", "ipv4:127.0.0.1:7",
        "fd:4294967296", "fd:1048576", "fd:4294967295"}) {
    EXPECT_FALSE(identities.Find(peer).has_value()) << peer;
  }
  EXPECT_FALSE(identities.Set(-1, Of(1)));
  EXPECT_FALSE(identities.Set(1 << 20, Of(1)));
  EXPECT_TRUE(identities.Set((1 << 20) - 1, Of(1003)));
  EXPECT_EQ(identities.Find("fd:1048575")->who.uid, 1003u);
}

// What is found is always one that was set, while numbers are used again.
TEST(Identities, ReadersBesideReplacements) {
  Identities identities;
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  std::atomic<uint64_t> wrong{0};
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        for (int fd = 0; fd < 8; ++fd) {
          const auto found = identities.Find(absl::StrCat("fd:", fd));
          if (found && found->who.uid % 8 != static_cast<uid_t>(fd)) ++wrong;
        }
      }
    });
  }
  for (uid_t round = 0; round < 20000; ++round) {
    identities.Set(static_cast<int>(round % 8), Of(round));
  }
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(wrong.load(), 0u);
}

}  // namespace
}  // namespace hugepool::service
