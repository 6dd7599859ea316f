#pragma once
// Encodes a step of a run log: its sequences and the activity of the KV tiers. A step is stored as the
// changes from the previous step. Included by run_log.cc only. Invalid values make the reader fail. Threads:
// none.
#include "sim/byte_coding.h"
#include "sim/run_log.h"

namespace pagoda::run_log {

void put_owner(ByteWriter& out, const CacheOwner& owner);
CacheOwner get_owner(ByteReader& in);

void put_step(ByteWriter& out, const LoggedStep& step, const LoggedStep& before);
LoggedStep get_step(ByteReader& in, const LoggedStep& before);

}  // namespace pagoda::run_log
