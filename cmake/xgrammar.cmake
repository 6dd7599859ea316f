# XGrammar, built from the source that script/setup puts into the cache folder. Without it PAGODA_XGRAMMAR is off, and
# the program answers requests for structured output with an error. -DPAGODA_XGRAMMAR_SOURCE=DIR names another folder.
set(cache "$ENV{PAGODA_CACHE}")
if(NOT cache)
  set(cache "$ENV{XDG_CACHE_HOME}")
  if(NOT cache)
    set(cache "$ENV{HOME}/.cache")
  endif()
  string(APPEND cache "/pagoda")
endif()
file(STRINGS ${PROJECT_SOURCE_DIR}/script/xgrammar.txt requirement LIMIT_COUNT 1)
string(REGEX MATCH "^xgrammar==([^ ]+)" _ "${requirement}")
set(PAGODA_XGRAMMAR_SOURCE "${cache}/xgrammar-${CMAKE_MATCH_1}" CACHE PATH "Source of XGrammar")
if(EXISTS ${PAGODA_XGRAMMAR_SOURCE}/CMakeLists.txt)
  set(PAGODA_XGRAMMAR ON)
else()
  set(PAGODA_XGRAMMAR OFF)
  message(STATUS "No XGrammar in ${PAGODA_XGRAMMAR_SOURCE}: no structured output (script/setup fetches it)")
  return()
endif()

# A separate library, built from its sources without its CMakeLists.txt, which requires link-time optimisation and makes
# its warnings errors. Its exceptions contain source file names; the prefix map keeps this machine's paths out of them.
file(GLOB xgrammar_sources ${PAGODA_XGRAMMAR_SOURCE}/cpp/*.cc ${PAGODA_XGRAMMAR_SOURCE}/cpp/support/*.cc
     ${PAGODA_XGRAMMAR_SOURCE}/cpp/converter_ext/*.cc)
list(REMOVE_ITEM xgrammar_sources ${PAGODA_XGRAMMAR_SOURCE}/cpp/grammar_compiler.cc)  # included by shared_masks.cpp

# Some source files are copied to the build folder, and a few lines of the copies are changed.
function(pagoda_change_text name old new)
  string(REPLACE "${old}" "${new}" changed "${${name}}")
  if("${changed}" STREQUAL "${${name}}")
    message(FATAL_ERROR "XGrammar has no '${old}': cmake/xgrammar.cmake fits the pinned version alone")
  endif()
  set(${name} "${changed}" PARENT_SCOPE)
endfunction()
macro(pagoda_use_copy file name)
  file(CONFIGURE OUTPUT xgrammar/${file} CONTENT "${${name}}" @ONLY)
  list(REMOVE_ITEM xgrammar_sources ${PAGODA_XGRAMMAR_SOURCE}/cpp/${file})
  list(APPEND xgrammar_sources ${PROJECT_BINARY_DIR}/xgrammar/${file})
endmacro()
# Grammars share masks, which make up most of their bytes. The size of a mask includes its table entry; otherwise the
# memory limit would not bound many small masks. The copies of headers are included first, and their include guards then
# exclude the originals.
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/compiled_grammar_impl.h text)
pagoda_change_text(text "return MemorySize(mask.uncertain_indices)" "return 320 + MemorySize(mask.uncertain_indices)")
pagoda_change_text(text "std::unordered_map<ParserState, AdaptiveTokenMask," "std::unordered_map<ParserState, pagoda::SharedMask,")
pagoda_change_text(text "/*!\n * \\brief All information that we need to match tokens"
                        "}\n#include \"shared_mask.h\"\nnamespace xgrammar {\n/*!\n * \\brief All that we need to match tokens")
file(CONFIGURE OUTPUT xgrammar/compiled_grammar_impl.h CONTENT "${text}" @ONLY)
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/grammar_functor.h text)
pagoda_change_text(text "AdaptiveTokenMask" "pagoda::SharedMask")
file(CONFIGURE OUTPUT xgrammar/grammar_functor.h CONTENT "${text}" @ONLY)
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/compiled_grammar.cc text)
pagoda_change_text(text "  for (const auto& [state, mask] : impl->adaptive_token_mask_cache) {"
                        "  for (const auto& [state, shared] : impl->adaptive_token_mask_cache) {\n    const AdaptiveTokenMask& mask = shared;")
pagoda_use_copy(compiled_grammar.cc text)
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/grammar_matcher.cc text)
pagoda_change_text(text "const auto& adaptive_token_mask = adaptive_token_mask_it->second;"
                        "const AdaptiveTokenMask& adaptive_token_mask = adaptive_token_mask_it->second;")
# Most skips over tokens that cannot match are short, so an exponential search replaces the binary search over all remaining
# tokens, which would touch distant, cold memory.
pagoda_change_text(text "          token_it =\n              std::lower_bound(token_it, token_it + search_size, last_rejected_uncertain_range);" [[
          int64_t step = 1;
          while (step < search_size && token_it[step - 1] < last_rejected_uncertain_range) step *= 2;
          token_it = std::lower_bound(
              token_it + step / 2, token_it + std::min(step, search_size), last_rejected_uncertain_range
          );]])
# Near the end of a counted repetition (counted.h), the mask is cut to the tokens that are short enough.
pagoda_change_text(text [[
  std::vector<std::pair<ParserState, decltype(adaptive_token_mask_cache.cbegin())>>
      latest_states_with_masks;
]] [[
  std::vector<std::pair<ParserState, const AdaptiveTokenMask*>> latest_states_with_masks;
  std::list<AdaptiveTokenMask> cut_masks;
]])
pagoda_change_text(text "    latest_states_with_masks.push_back(std::make_pair(state, adaptive_token_mask_it));\n" [[
    const pagoda::CountedPlace place = pagoda::counted_place(grammar_, rule_id_to_completable_states_, state);
    if (place.left < tokenizer_info_.ImplPtr()->GetMaxTokenChars()) {
      cut_masks.push_back(pagoda::cut_mask(adaptive_token_mask, place, tokenizer_info_));
      tmp_accepted_bitset_ |= cut_masks.back().accepted_bitset;
      latest_states_with_masks.emplace_back(state, &cut_masks.back());
      continue;
    }
    latest_states_with_masks.emplace_back(state, &adaptive_token_mask);
]])
pagoda_change_text(text "  for (const auto& [state, adaptive_token_mask_it] : latest_states_with_masks) {
    const AdaptiveTokenMask& adaptive_token_mask = adaptive_token_mask_it->second;"
                        "  for (const auto& [state, mask] : latest_states_with_masks) {
    const AdaptiveTokenMask& adaptive_token_mask = *mask;")
set(text "#include <list>\n#include \"counted.h\"\n${text}")
pagoda_use_copy(grammar_matcher.cc text)
# The compiler, included by shared_masks.cpp. Known masks are looked up before a parser is created for their position. The
# match of a token's suffix against the sequence after a rule is computed once per suffix, not per token and position.
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/grammar_compiler.cc text)
pagoda_change_text(text "  AdaptiveTokenMask GetAdaptiveTokenMask(bool" "  pagoda::SharedMask GetAdaptiveTokenMask(bool")
pagoda_change_text(text "AdaptiveTokenMask GrammarMatcherForTokenMaskCache::" "pagoda::SharedMask GrammarMatcherForTokenMaskCache::")
pagoda_change_text(text "std::optional<AdaptiveTokenMask> crossing_cache"
                        "pagoda::SharedMask::begin();\n  std::optional<pagoda::SharedMask> crossing_cache")
pagoda_change_text(text "        // A perfect match." "        pagoda::spend(crossing_cache->work());\n        // A perfect match.")
pagoda_change_text(text "    // If the rule doesn't have a lookahead, then it is exactly the same fsm.\n    if (crossing_cache.has_value()) {"
                        "    // If the rule doesn't have a lookahead, then it is exactly the same fsm.\n    if (crossing_cache.has_value()) {\n      pagoda::spend(crossing_cache->work());")
pagoda_change_text(text "auto return_value = AdaptiveTokenMask(" "pagoda::SharedMask return_value = AdaptiveTokenMask(")
pagoda_change_text(text [[
      AdaptCacheWithLookahead(&crossing_cache.value(), is_root_rule);
      return std::move(crossing_cache.value());]] [[
      if (!is_root_rule && lookahead_id == -1) return *crossing_cache;
      AdaptiveTokenMask adapted = *crossing_cache;
      AdaptCacheWithLookahead(&adapted, is_root_rule);
      return adapted;]])
pagoda_change_text(text "  // Temporary data for GetAdaptiveTokenMask." [[
 public:
  pagoda::rule_names::KnownMasks::Suffixes* known_suffixes_ = nullptr;
  // As one made for that place. Not for grammars with budgets or captures.
  void StartAt(const ParserState& state) {
    init_rule_id_ = state.rule_id;
    initial_state_ = state;
    rule_id_to_completable_states_.PopBack(rule_id_to_completable_states_.size());
    scanable_state_history_.PopBack(scanable_state_history_.size());
    is_completed_.clear();
    PushStateAndExpand(state);
  }
 private:
  // Temporary data for GetAdaptiveTokenMask.]])
pagoda_change_text(text "  PushStateAndExpand(lookahead_state);\n  int token_len" [[
  if (known_suffixes_ != nullptr) {
    using Outcome = pagoda::rule_names::KnownMasks::Outcome;
    for (int i = static_cast<int>(can_reach_end_stack.size()) - 1; i >= 0; --i) {
      if (!can_reach_end_stack[i]) continue;
      const std::string_view suffix = std::string_view(token).substr(i);
      const Outcome outcome = known_suffixes_->of(suffix, [&](std::string_view bytes) {
        PushStateAndExpand(lookahead_state);
        bool completes = IsCompleted();
        int taken = 0;
        while (!completes && taken < static_cast<int>(bytes.size()) && Advance(bytes[taken])) {
          ++taken;
          completes = IsCompleted();
        }
        PopLastStates(taken + 1);
        if (completes) return Outcome::completes;
        return taken == static_cast<int>(bytes.size()) ? Outcome::all : Outcome::no;
      });
      if (outcome == Outcome::completes) return {true, true};
      if (outcome == Outcome::all) return {true, false};
    }
    return {false, false};
  }
  PushStateAndExpand(lookahead_state);
  int token_len]])
pagoda_change_text(text "  auto add_adaptive_token_mask = [&](const ParserState& state, bool is_root_rule) {\n" [[
  pagoda::rule_names::KnownMasks known_masks(compiled_grammar_impl->grammar, rule_level_cache_);
  std::optional<GrammarMatcherForTokenMaskCache> reused;  // max_threads_ is 1
  auto add_adaptive_token_mask = [&](const ParserState& state, bool is_root_rule) {
    if (auto known = known_masks.find(state, is_root_rule)) {
      pagoda::spend(known->work());
      compiled_grammar_impl->adaptive_token_mask_cache[state] = std::move(*known);
      return;
    }
]])
pagoda_change_text(text "    auto grammar_matcher = GrammarMatcherForTokenMaskCache(" [[
    if (reused.has_value()) reused->StartAt(state);
    if (!reused.has_value() || !known_masks.plain()) reused.emplace(]])
pagoda_change_text(text "    auto cur_adaptive_token_mask_cache = " [[
    auto& grammar_matcher = *reused;
    grammar_matcher.known_suffixes_ = known_masks.suffixes(state.rule_id);
    auto cur_adaptive_token_mask_cache = ]])
# A token that extends beyond a counted repetition is uncertain, not rejected: the count and what follows decide.
pagoda_change_text(text [[
        if ((!is_root_rule) && lookahead_accepted) {
          if (lookahead_completed || !is_exact_lookahead) {
            tmp_uncertain_indices_.push_back(i);]] [[
        const bool counted = pagoda::is_counted(grammar_, init_rule_id_);
        if ((!is_root_rule) && (lookahead_accepted || counted)) {
          if (lookahead_completed || !is_exact_lookahead || !lookahead_accepted) {
            tmp_uncertain_indices_.push_back(i);]])
pagoda_change_text(text [[
        if ((!is_root_rule) && lookahead_accepted) {
          if (lookahead_completed || !is_exact_lookahead) {
            tmp_uncertain_indices_.push_back(uncertain_index);]] [[
        const bool counted = pagoda::is_counted(grammar_, init_rule_id_);
        if ((!is_root_rule) && (lookahead_accepted || counted)) {
          if (lookahead_completed || !is_exact_lookahead || !lookahead_accepted) {
            tmp_uncertain_indices_.push_back(uncertain_index);]])
pagoda_change_text(text "    for (int i = interval.first; i < interval.second; ++i) {"
                        "    for (int i = interval.first; i < interval.second; ++i) {\n      pagoda::spend();")
set(text "#include \"counted.h\"\n#include \"work.h\"\n${text}")
file(CONFIGURE OUTPUT xgrammar/grammar_compiler.cc CONTENT "${text}" @ONLY)
# Releases masks that are evicted from the cache. Otherwise the cache slot would keep the mask, with the capacity of the
# largest mask that it ever held.
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/grammar_functor.cc text)
pagoda_change_text(text "AdaptiveTokenMask" "pagoda::SharedMask")
pagoda_change_text(text "      shard.cache_list.Erase(oldest_it);"
                        "      oldest_it->second = pagoda::SharedMask();\n      shard.cache_list.Erase(oldest_it);")
# Reuses the automata of known expressions (known_regexes.h). Automata that refer to rules belong to one grammar and are
# not kept.
pagoda_change_text(text "  return BuildExpressionFSM(\n      grammar->GetGrammarExpr(rule.body_expr_id), grammar" [[
  const auto body = grammar->GetGrammarExpr(rule.body_expr_id);
  if (body.type == ExprType::kRegex) {
    using Known = pagoda::KnownRegexes<std::vector<int32_t>, FSMWithStartEnd>;
    static thread_local Known known_regexes;
    std::vector<int32_t> key(body.begin(), body.end());
    if (const FSMWithStartEnd* known = known_regexes.find(key)) return *known;
    const std::int64_t before = pagoda::work_done();
    FSMWithStartEnd built = BuildExpressionFSM(body, grammar, &rule.name, grammar_builder);
    if (built.IsLeaf() && built.NumStates() <= Known::kMostStates)
      known_regexes.keep(std::move(key), built, pagoda::work_done() - before);
    return built;
  }
  return BuildExpressionFSM(
      grammar->GetGrammarExpr(rule.body_expr_id), grammar]])
# The check whether an expression has an automaton counts repetitions (counted.h), as its compilation does.
pagoda_change_text(text "regex, GrammarFSMBuilder::JSONStringForbiddenChars()\n" "regex, GrammarFSMBuilder::JSONStringForbiddenChars(), &scratch\n")
pagoda_change_text(text ": RegexFSMBuilder::Build(regex);" ": RegexFSMBuilder::Build(regex, &scratch);")
pagoda_change_text(text "  auto build_result = json_string ? RegexFSMBuilder"
                        "  GrammarBuilder scratch;\n  const pagoda::CountedRules rules;\n  auto build_result = json_string ? RegexFSMBuilder")
pagoda_change_text(text "    int32_t num_original_rules = (*grammar)->NumRules();\n"
                        "    int32_t num_original_rules = (*grammar)->NumRules();\n    const pagoda::CountedRules rules;\n")
pagoda_change_text(text "  // Case 1.1 small upper (<=threshold), unzip the repetition.\n" [[
  if (builder_->GetGrammarExpr(grammar_expr_id).type == GrammarBuilder::GrammarExprType::kCharacterClass &&
      std::max(lower, upper) > pagoda::kMostUnrolled && lower < pagoda::kEndless) {
    return builder_->AddRuleRef(pagoda::counted_characters(
        *builder_, cur_rule_name, grammar_expr_id, static_cast<int32_t>(lower),
        upper == -1 || upper > pagoda::kEndless ? pagoda::kEndless : static_cast<int32_t>(upper)));
  }
]])
set(text "#include \"counted.h\"\n#include \"known_regexes.h\"\n${text}")
pagoda_use_copy(grammar_functor.cc text)
# A character class accepts only valid UTF-8 (the function is in inside.cpp): no surrogates and no overlong encodings.
# Otherwise a reader could count more characters than 'maxLength' allows.
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/fsm_builder.cc text)
pagoda_change_text(text "void AddPackedUTF8RangeEdges(" "void AddAnyPackedRangeEdges(")
# Repetitions are counted (counted.h), except small ones.
pagoda_change_text(text "      bool is_large_repeat = upper_bound" [[
      const RegexIR::State& repeated = std::get<RegexIR::State>(atom.item);
      const bool character = std::holds_alternative<RegexIR::Leaf>(repeated);
      if (builder != nullptr && !RegexIR::IsNullable(repeated) &&
          std::max(lower_bound, upper_bound) >
              (character ? pagoda::kMostUnrolled : pagoda::kMostUnrolledGroups)) {
        const bool last = i + 1 == size || (i + 2 == size && regex[i + 1] == '$');
        const bool grouped = std::any_of(stack.begin(), stack.end(), [](const RegexStackEntry& entry) {
          const char* const marker = std::get_if<char>(&entry.item);
          return marker != nullptr && *marker == '(';
        });
        const bool sealed = last && !grouped && character;
        const std::string inner = (ir.case_insensitive ? "(?i)" : "") +
                                  regex.substr(atom.span_begin, atom.span_end - atom.span_begin);
        const int32_t rule = pagoda::counted_rule(*builder, inner, sealed);
        if (rule < 0) return ResultErr(error_at(repeat_begin, "Nothing can be written of what is repeated"));
        stack.push_back({RegexIR::RepeatSubrule{rule, lower_bound,
                                                upper_bound == RegexIR::kRepeatNoUpperBound
                                                    ? pagoda::kEndless
                                                    : upper_bound},
                         atom.span_begin, i + 1});
        continue;
      }
      bool is_large_repeat = upper_bound]])
pagoda_change_text(text "  auto build_result = Build(regex, builder, rule_hint);"
                        "  const pagoda::JsonStrings within(forbidden_chars.any());\n  auto build_result = Build(regex, builder, rule_hint);")
# Sets of strings are accepted in place of expressions (string_sets.h).
pagoda_change_text(text "  const pagoda::JsonStrings within(forbidden_chars.any());\n"
                        "  if (pagoda::is_string_set(regex)) return pagoda::string_set(regex, forbidden_chars);\n  const pagoda::JsonStrings within(forbidden_chars.any());\n")
pagoda_change_text(text "Result<bool> RegexFSMBuilder::MatchesEmpty(const std::string& regex) {" [[
Result<bool> RegexFSMBuilder::MatchesEmpty(const std::string& regex) {
  if (pagoda::is_string_set(regex)) {
    auto set = pagoda::string_set(regex, GrammarFSMBuilder::JSONStringForbiddenChars());
    if (set.IsErr()) return ResultErr(std::move(set).UnwrapErr());
    return ResultOk(set.ValueRef().IsEndState(set.ValueRef().GetStart()));
  }]])
set(text "#include <algorithm>\n#include \"counted.h\"\n#include \"grammar_functor.h\"\n#include \"string_sets.h\"\n${text}")
pagoda_use_copy(fsm_builder.cc text)
# The state of a counted repetition has no other edges; otherwise a count would be carried along them.
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/fsm.cc text)
pagoda_change_text(text "      if (edge.IsExcludeToken()) {\n        has_exclude_token[i] = true;"
                        "      if (edge.IsExcludeToken() || edge.IsRepeatRef()) {\n        has_exclude_token[i] = true;")
pagoda_change_text(text "    // Case 1: Like ab | ac | ad" [[
    for (int state = 0; state < n; ++state) {
      for (const auto& edge : result.GetFsm().GetEdges(state)) {
        if (edge.IsRepeatRef()) incoming_distinct_count[state] = 0;
      }
    }
    // Case 1: Like ab | ac | ad]])
# An optional expression begins in a state of its own. Its start state may be reachable again, as in `(a*b)?`, and an
# accepting start state would then accept any text that leads back to it.
pagoda_change_text(text "  if (!ends_.empty()) {\n    fsm.AddEpsilonEdge(start_, ends_.front());\n  }\n  return FSMWithStartEnd(fsm, start_, ends_);" [[
  const int new_start = fsm.AddState();
  fsm.AddEpsilonEdge(new_start, start_);
  std::vector<int32_t> ends = ends_;
  ends.push_back(new_start);
  return FSMWithStartEnd(fsm, new_start, std::move(ends));]])
# States are merged by one criterion at a time. Otherwise two states that equal a third one for different reasons would
# be merged.
pagoda_change_text(text "      if (outgoing_count == 0) {\n        if (result.IsEndState(i)) {"
                        "      if (outgoing_count == 0) {\n        if (union_find_set.Count(i)) continue;\n        if (result.IsEndState(i)) {")
# The work of compiling is counted here and in two more files (work.h).
pagoda_change_text(text "    edges_[from].push_back({min, max, to});" "    pagoda::spend();\n    edges_[from].push_back({min, max, to});")
pagoda_change_text(text "    edges_.emplace_back();\n    return" "    pagoda::spend();\n    edges_.emplace_back();\n    return")
pagoda_change_text(text "  for (int i = 0; i < static_cast<int>(edges_.size()); ++i) {\n    for (const auto& edge : edges_[i]) {\n      if (edge.IsEpsilon() &&"
                        "  for (int i = 0; i < static_cast<int>(edges_.size()); ++i) {\n    for (const auto& edge : edges_[i]) {\n      pagoda::spend();\n      if (edge.IsEpsilon() &&")
pagoda_change_text(text "    int n = result.NumStates();\n    union_find_set.Clear();" "    int n = result.NumStates();\n    pagoda::spend(n);\n    union_find_set.Clear();")
pagoda_change_text(text "  while (now_process < static_cast<int>(closures.size())) {" "  while (now_process < static_cast<int>(closures.size())) {\n    pagoda::spend(static_cast<std::int64_t>(closures.size() + closures[now_process].size()));")
pagoda_change_text(text "  while (!working_set.empty()) {" "  while (!working_set.empty()) {\n    pagoda::spend(NumStates());")
pagoda_change_text(text "  return FSMWithStartEnd(fsm_.Copy(), start_, ends_, is_dfa_);" "  pagoda::spend(NumStates());\n  return FSMWithStartEnd(fsm_.Copy(), start_, ends_, is_dfa_);")
set(text "#include \"work.h\"\n${text}")
pagoda_use_copy(fsm.cc text)
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/grammar_builder.cc text)
pagoda_change_text(text "  // Offsets into grammar_expr_data_ are stored as int32." "  pagoda::spend(1 + grammar_expr.data_len);")
set(text "#include \"work.h\"\n${text}")
pagoda_use_copy(grammar_builder.cc text)
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/earley_parser.cc text)
pagoda_change_text(text "    tmp_process_state_queue_.pop();" "    tmp_process_state_queue_.pop();\n    pagoda::spend();")
pagoda_change_text(text "    if (ref_id != state.rule_id) {" "    pagoda::spend();\n    if (ref_id != state.rule_id) {")
set(text "#include \"work.h\"\n${text}")
pagoda_use_copy(earley_parser.cc text)
# Surrogate escapes in strings must come in pairs: a lone surrogate is not a character, and strict readers reject it.
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/json_schema_converter.cc text)
pagoda_change_text(text "  builder_.UpdateRuleBody(kBasicEscape, Choice({escaped_character, unicode_escape}));" [[
  const int32_t d = builder_.AddCharacterClass({{'D', 'D'}, {'d', 'd'}}), hex = hexadecimal_character;
  const int32_t not_d = builder_.AddCharacterClass({{'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}, {'0', '9'}});
  const int32_t first = builder_.AddCharacterClass({{'8', '9'}, {'A', 'B'}, {'a', 'b'}});
  const int32_t second = builder_.AddCharacterClass({{'C', 'F'}, {'c', 'f'}});
  builder_.UpdateRuleBody(
      kBasicEscape,
      Choice({escaped_character, Sequence({ByteString("u"), not_d, hex, hex, hex}),
              Sequence({ByteString("u"), d, builder_.AddCharacterClass({{'0', '7'}}), hex, hex}),
              Sequence({ByteString("u"), d, first, hex, hex, ByteString("\\u"), d, second, hex, hex})}));]])
# A whitespace limit of 0 is valid.
pagoda_change_text(text "max_whitespace_cnt.value() <= 0" "max_whitespace_cnt.value() < 0")
# Numbers may have a regular expression (constraint/number_patterns.h).
pagoda_change_text(text "  // Check for pattern\n  if (spec.pattern.has_value()) {" [[
  if (spec.pattern.has_value() && !spec.pattern->empty() && spec.pattern->front() == '\x01') {
    return RegexExpression(spec.pattern->substr(1), false);
  }
  // Check for pattern
  if (spec.pattern.has_value()) {]])
pagoda_change_text(text "      return RegexExpression(*spec.pattern, false, /*force_cfg_expansion=*/true);" [[
      return RegexExpression(
          spec.pattern->substr(!spec.pattern->empty() && spec.pattern->front() == '\x01'), false,
          /*force_cfg_expansion=*/true
      );]])
# An undeclared property name has only one spelling until it differs from all declared names. Otherwise an escape could
# spell a declared name, and characters that must be escaped could be written unescaped.
pagoda_change_text(text "  choices.push_back(Sequence({ByteString(\"\\\\\"), RuleRef(kBasicEscape), RuleRef(kBasicStringSub)}));\n  for (const auto& [character, child] : node.children) {\n    choices" "  for (const auto& [character, child] : node.children) {\n    choices")
pagoda_change_text(text "    for (unsigned char c : prop.name) {\n      cur = &cur->children[c];\n    }\n    cur->is_terminal = true;" [[
    bool bare = true;
    for (unsigned char c : prop.name) {
      bare = bare && c >= 0x20 && c != '"' && c != '\\';
      if (bare) cur = &cur->children[c];
    }
    if (bare) cur->is_terminal = true;]])
# The check whether an expression has an automaton runs once per expression (known_regexes.h).
pagoda_change_text(text "    auto fsm_result = GrammarFSMBuilder::Regex(regex, json_string);" [[
    static thread_local pagoda::KnownRegexes<std::string, bool> known_regexes;
    std::string key = (json_string ? "j" : "r") + regex;
    if (known_regexes.find(key) != nullptr) return builder_.AddRegex(regex, json_string);
    const std::int64_t before = pagoda::work_done();
    auto fsm_result = GrammarFSMBuilder::Regex(regex, json_string);]])
pagoda_change_text(text "        return builder_.AddRegex(regex, json_string);\n      }\n" [[
        known_regexes.keep(std::move(key), true, pagoda::work_done() - before);
        return builder_.AddRegex(regex, json_string);
      }
]])
set(text "#include \"known_regexes.h\"\n${text}")
pagoda_use_copy(json_schema_converter.cc text)

set(pagoda_sources inside.cpp counted.cpp shared_masks.cpp string_sets.cpp)
list(TRANSFORM pagoda_sources PREPEND ${PROJECT_SOURCE_DIR}/cmake/xgrammar/)
add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${xgrammar_sources}
            ${pagoda_sources})
set_target_properties(xgrammar PROPERTIES CXX_STANDARD 17)
target_include_directories(xgrammar SYSTEM PUBLIC ${PAGODA_XGRAMMAR_SOURCE}/include
                                                  ${PAGODA_XGRAMMAR_SOURCE}/3rdparty/dlpack/include)
target_include_directories(xgrammar SYSTEM PRIVATE ${PAGODA_XGRAMMAR_SOURCE}/3rdparty/picojson
                                                   ${PAGODA_XGRAMMAR_SOURCE}/cpp)
target_include_directories(xgrammar SYSTEM INTERFACE ${PROJECT_SOURCE_DIR}/cmake)
target_include_directories(xgrammar PRIVATE ${PROJECT_SOURCE_DIR}/cmake/xgrammar ${PROJECT_BINARY_DIR}/xgrammar)
file(RELATIVE_PATH relative ${PROJECT_BINARY_DIR} ${PAGODA_XGRAMMAR_SOURCE})  # the relative path that ccache may pass
target_compile_options(xgrammar PRIVATE -w -Wno-error -ffile-prefix-map=${PAGODA_XGRAMMAR_SOURCE}/=
                                        -ffile-prefix-map=${relative}/=)
target_compile_options(xgrammar PRIVATE -include ${PROJECT_BINARY_DIR}/xgrammar/grammar_functor.h)  # the other copied header
# PAGODA_UNITY compiles the library as four files, which share headers and template instantiations; this takes 60 % of the
# time. minimax_m3 has a name in common with json_schema_converter.
if(PAGODA_UNITY)
  set_target_properties(xgrammar PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS xgrammar_sources pagoda_sources)
    set(group automata)
    if(source MATCHES "minimax_m3|structural_tag|lark|parser|printer")
      set(group texts)
    elseif(source MATCHES "schema|regex_converter|converter_ext")
      set(group schemas)
    elseif(source MATCHES "matcher|earley|masks|compiled|tokenizer|/grammar.cc|serializer")
      set(group masks)
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endif()
target_compile_definitions(xgrammar PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0
                                            XGRAMMAR_LOG_CUSTOMIZE=1)  # implemented in xgrammar/inside.cpp
target_link_libraries(xgrammar PUBLIC Threads::Threads)
pagoda_precompile(xgrammar std <picojson.h>)
