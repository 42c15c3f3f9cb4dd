#include "daemon/clear/pacer.h"

#include <thread>

#include "daemon/sys/fake_pressure.h"
#include "gtest/gtest.h"

namespace hugepool {
namespace {

class PacerTest : public testing::Test {
 protected:
  Pacer::Options Options(std::optional<Bytes> bandwidth) {
    return {.clock = &clock_,
            .bandwidth = bandwidth,
            .pressure = &pressure_,
            .pressure_limit = 10};
  }
  void LookAfterASecond(Pacer& pacer, double rate = 0) {
    clock_.Advance(absl::Seconds(1));
    pacer.Look(rate);
  }
  FakeClock clock_;
  sys::FakePressure pressure_;
};

TEST_F(PacerTest, PressureTakesItsPartOfTheCap) {
  Pacer pacer(Options(GiB(4)));
  EXPECT_EQ(pacer.state().bandwidth, GiB(4));
  pressure_.Set(11);
  LookAfterASecond(pacer);
  EXPECT_EQ(pacer.state().bandwidth, GiB(2));
  EXPECT_EQ(pacer.state().share, 0.5);
  EXPECT_EQ(pacer.state().pressure, 11);
  // Of a cap that is new, too.
  pacer.SetBandwidth(GiB(8));
  EXPECT_EQ(pacer.state().bandwidth, GiB(4));
  pressure_.Set(9);
  for (int i = 0; i < 8; ++i) LookAfterASecond(pacer);
  EXPECT_EQ(pacer.state().bandwidth, GiB(8));
}

TEST_F(PacerTest, WithoutACapItIsAPartOfWhatTheWorkWouldReach) {
  Pacer pacer(Options(std::nullopt));
  EXPECT_FALSE(pacer.capped());
  pressure_.Set(100);
  LookAfterASecond(pacer, static_cast<double>(GiB(40).value()));
  EXPECT_TRUE(pacer.capped());
  EXPECT_EQ(pacer.state().bandwidth, GiB(20));
  LookAfterASecond(pacer, 0);
  EXPECT_EQ(pacer.state().bandwidth, GiB(1)) << "a quarter of a guess";
  pressure_.Set(0);
  for (int i = 0; i < 12; ++i) LookAfterASecond(pacer);
  EXPECT_FALSE(pacer.capped());
}

TEST_F(PacerTest, NeverFallsToNothing) {
  Pacer pacer(Options(MiB(2)));
  pressure_.Set(100);
  for (int i = 0; i < 10; ++i) LookAfterASecond(pacer);
  EXPECT_EQ(pacer.state().bandwidth, MiB(1));
}

TEST_F(PacerTest, LooksAtMostOnceASecond) {
  Pacer pacer(Options(std::nullopt));
  for (int i = 0; i < 100; ++i) {
    pacer.Look(0);
    clock_.Advance(absl::Milliseconds(100));
  }
  EXPECT_EQ(pressure_.reads(), 10);
}

TEST_F(PacerTest, WithNobodyToAskOrWithoutALimitItDoesNotLook) {
  Pacer::Options options = Options(std::nullopt);
  options.pressure = nullptr;
  Pacer deaf(options);
  EXPECT_FALSE(deaf.looks());
  deaf.Look(0);

  Pacer pacer(Options(GiB(1)));
  pressure_.Set(100);
  LookAfterASecond(pacer);
  EXPECT_EQ(pacer.state().bandwidth, MiB(512));
  pacer.SetPressureLimit(std::nullopt);
  EXPECT_FALSE(pacer.looks());
  EXPECT_EQ(pacer.state().bandwidth, GiB(1)) << "at once";
  LookAfterASecond(pacer);
  EXPECT_EQ(pressure_.reads(), 1);
  pacer.SetPressureLimit(50);
  EXPECT_TRUE(pacer.looks());
  LookAfterASecond(pacer);
  EXPECT_EQ(pacer.state().share, 0.5);
}

// Its clock stands still: nothing ends this wait but what the test says.
TEST_F(PacerTest, ThreeThingsEndAWaitForTheCap) {
  for (void (*end)(Pacer&) :
       {+[](Pacer& p) { p.Hurry(); }, +[](Pacer& p) { p.Cancel(); },
        +[](Pacer& p) { p.SetBandwidth(GiB(1)); }}) {
    Pacer pacer(Options(MiB(1)));
    pacer.WaitForTurn(GiB(1));
    std::thread waits([&] { pacer.WaitForTurn(GiB(1)); });
    end(pacer);
    waits.join();
  }
}

TEST_F(PacerTest, CalmEndsTheHurryAndNothingEndsTheEnd) {
  Pacer pacer(Options(MiB(1)));
  pacer.Hurry();
  EXPECT_TRUE(pacer.hurried());
  pacer.Calm();
  EXPECT_FALSE(pacer.hurried());
  pacer.Cancel();
  pacer.Calm();
  EXPECT_TRUE(pacer.cancelled());
}

}  // namespace
}  // namespace hugepool
