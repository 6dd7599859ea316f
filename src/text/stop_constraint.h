#pragma once
// Stop strings as a TokenConstraint: every token may come, and the sequence ends with the one that completes
// a stop string. For beam search, which has to know where a hypothesis ends to score it; other answers are
// cut by StopMatcher, which also cuts the text here. Special tokens have no text. Threads: as
// TokenConstraint's.
#include <memory>
#include <string>
#include <vector>

#include "request/token_constraint.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// Borrows the tokenizer. Empty strings stop nothing.
std::shared_ptr<const TokenConstraintFactory> make_stop_constraint(const Tokenizer& tokenizer,
                                                                   std::vector<std::string> stops);

// Allows tokens that both allow and ends where one of them ends. Either may be null: it allows everything.
std::shared_ptr<const TokenConstraintFactory> both_constraints(
    std::shared_ptr<const TokenConstraintFactory> first,
    std::shared_ptr<const TokenConstraintFactory> second);

}  // namespace pagoda
