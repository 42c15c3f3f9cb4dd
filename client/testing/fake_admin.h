// The admin service for FakeDaemon.
#ifndef HUGEPOOL_CLIENT_TESTING_FAKE_ADMIN_H_
#define HUGEPOOL_CLIENT_TESTING_FAKE_ADMIN_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "hugepool/v1/admin.grpc.pb.h"

namespace hugepool::testing {

// A status with an ErrorDetail, as the daemon sends it.
grpc::Status MakeStatus(absl::StatusCode code, const std::string& text,
                        const v1::ErrorDetail& detail);

// Canned answers: Verify finds one stray byte, Reclaim reclaims what was asked
// for, RevokeLease wants --kill, ReloadConfig finds an error.
std::unique_ptr<v1::HugePoolAdmin::Service> MakeFakeAdmin();

}  // namespace hugepool::testing

#endif  // HUGEPOOL_CLIENT_TESTING_FAKE_ADMIN_H_
