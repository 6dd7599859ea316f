#pragma once
// Stop strings as a TokenConstraint: allows every token, and ends the sequence at the token that completes a
// stop string. For beam search, which must know where a hypothesis ends in order to score it; other answers
// are cut by StopMatcher, which also cuts the text here. Special tokens have no text. Threads: as for
// TokenConstraint.
#include <memory>
#include <string>
#include <vector>

#include "request/token_constraint.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// Borrows the tokenizer. Empty strings are ignored.
std::shared_ptr<const TokenConstraintFactory> make_stop_constraint(const Tokenizer& tokenizer,
                                                                   std::vector<std::string> stops);

// Allows the tokens that both constraints allow, and ends where either ends. Either may be null, which allows
// everything.
std::shared_ptr<const TokenConstraintFactory> both_constraints(
    std::shared_ptr<const TokenConstraintFactory> first,
    std::shared_ptr<const TokenConstraintFactory> second);

}  // namespace pagoda
