#pragma once
// The large parts of tokenizer.json, read directly from its text: vocabularies and lists of merges. Failures
// are corrupt_data. Threads: any.
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/token_model.h"
#include "tokenizer/vocabulary.h"

namespace pagoda {

// corrupt_data: "tokenizer.json: WHAT".
Status wrong_json(std::string_view what);

// {"token": id, …}
Status read_vocabulary(std::string_view text, Vocabulary& vocabulary);
// ids are indices in the list
Status read_scored_vocabulary(std::string_view text, Vocabulary& vocabulary, std::vector<double>& scores);

// Splits "left right"; false if there is not exactly one space.
bool split_merge(std::string_view line, MergeList& merges);
// `arena` holds the strings; it never grows beyond its initial capacity, so that views stay valid.
Status read_merges(std::string_view text, std::string& arena, MergeList& merges);

}  // namespace pagoda
