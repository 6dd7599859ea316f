#include "server/protocols.h"

#include "api/openai/openai_protocol.h"

namespace pagoda {

std::vector<const Protocol*> all_protocols() { return {&openai_protocol()}; }

}  // namespace pagoda
