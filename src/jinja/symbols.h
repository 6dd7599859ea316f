#pragma once
// Symbols: the names that a template scope loads and stores, and how each is initialised; resolve_names
// (scope.h) turns them into slots. Source: jinja2 3.1.6, idtracking.py.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "jinja/ast.h"

namespace pagoda::jinja {

// The slots of one Python function that jinja2 would compile: the template, a macro, a recursive loop.
struct FunctionScope {
  FunctionScope* parent = nullptr;
  int loops = 0;  // enclosing loops within this function that break and continue can reach
  std::map<std::string, int> slots;
  int slot(const std::string& identifier) {
    return slots.emplace(identifier, static_cast<int>(slots.size())).first->second;
  }
};

enum class LoadAction { parameter, resolve, alias, undefined };

struct Symbols;
struct Found {
  Symbols* symbols = nullptr;
  std::string identifier;
};
struct Load {
  LoadAction action = LoadAction::parameter;
  std::string name;  // resolve
  Found outer;       // alias
};

// jinja2's Symbols: the names of one scope and how each is initialised.
struct Symbols {
  Symbols* parent = nullptr;
  FunctionScope* function = nullptr;
  int level = 0;
  std::map<std::string, std::string> refs;  // name -> identifier
  std::map<std::string, Load> loads;        // identifier -> its initialisation
  std::set<std::string> stores;

  Found find_ref(const std::string& name);
  std::string define(const std::string& name, Load load);
  void store(const std::string& name);
  void parameter(const std::string& name);
  void load(const std::string& name);

  // Merges the branches of an `if`, each of which changed its own copy of this scope.
  void join(const std::vector<Symbols>& branches);
};

// Finds the names that a scope loads and stores; stops at inner scopes.
class SymbolVisitor {
 public:
  explicit SymbolVisitor(Symbols& symbols) : symbols_(&symbols) {}

  void arguments(const CallArguments& arguments);
  void expr(const Expr* node);
  void target(const Target& node, bool as_parameter);
  void body(const Body& nodes);
  void statement(const Statement& node);

 private:
  // jinja2 visits the first condition, then its body, all elifs and the else, each in a copy. An elif is
  // itself an `if` without further branches.
  void if_branches(const IfStatement& node);

  Symbols* symbols_;
};

// Finds which of `wanted` are loaded in a body before being stored there, including inner scopes.
class UndeclaredVisitor {
 public:
  explicit UndeclaredVisitor(std::set<std::string> wanted) : wanted_(std::move(wanted)) {}
  bool loads(const std::string& name) const { return undeclared_.contains(name); }

  void body(const Body& nodes);

 private:
  void load(const std::string& name);
  void store(const Target& node);

  // Reuses SymbolVisitor's walk over expressions: an expression only loads.
  void expr(const Expr* node);
  void macro(const MacroCode& code);
  void statement(const Statement& node);

  std::set<std::string> wanted_, undeclared_;
};

}  // namespace pagoda::jinja
