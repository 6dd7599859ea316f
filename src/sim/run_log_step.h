#pragma once
// A step in a run's log: its sequences, and what the tiers of the KV cache did meanwhile. A step is written
// as what changed since the one before. Only run_log.cc includes this. Errors: values that cannot be make the
// reader fail. Threads: none.
#include "sim/byte_coding.h"
#include "sim/run_log.h"

namespace pagoda::run_log {

void put_owner(ByteWriter& out, const CacheOwner& owner);
CacheOwner get_owner(ByteReader& in);

void put_step(ByteWriter& out, const LoggedStep& step, const LoggedStep& before);
LoggedStep get_step(ByteReader& in, const LoggedStep& before);

}  // namespace pagoda::run_log
