// A module: its header, variables and functions (PTX ISA 11).
#include <algorithm>

#include "core/error.hpp"
#include "sim/ptx/declaration.hpp"
#include "sim/ptx/function_parser.hpp"
#include "sim/ptx/lexer.hpp"

namespace nvfp4r::sim {

namespace {

constexpr uint64_t kMaxDimension = UINT32_MAX;

class ModuleParser {
  public:
    explicit ModuleParser(std::string_view text) : module_(std::make_unique<Module>()) { module_->source = text; }

    std::unique_ptr<Module> run() {
        Cursor cursor(tokenize(module_->source));
        cursor_ = &cursor;
        parse_header();
        while (!cursor.at_end()) {
            if (!cursor.accept(";")) parse_directive();
        }
        return std::move(module_);
    }

  private:
    Cursor& cursor() { return *cursor_; }

    void parse_header() {
        cursor().expect(".version");
        const Token version = cursor().expect(TokenKind::number, "a version");
        const size_t dot = version.text.find('.');
        uint64_t major = 0, minor = 0;
        if (dot == std::string_view::npos || !integer_value(version.text.substr(0, dot), major) ||
            !integer_value(version.text.substr(dot + 1), minor) || major > 99 || minor > 99) {
            fail_at(version, fmt::format("`{}` is not a version such as 8.6", version.text));
        }
        module_->version_major = static_cast<uint32_t>(major);
        module_->version_minor = static_cast<uint32_t>(minor);
        cursor().expect(".target");
        module_->target = cursor().expect(TokenKind::word, "a target such as sm_100a").text;
        while (cursor().accept(",")) cursor().expect(TokenKind::word, "a target option");
        if (cursor().accept(".address_size") && cursor().expect_integer("an address size", 64) != 64) {
            fail_at(cursor().peek(), "only 64-bit addresses are modelled");
        }
    }

    void parse_directive() {
        const Token directive = cursor().next();
        if (directive.is(".file")) {
            parse_file(cursor(), *module_);
        } else if (directive.is(".section")) {
            skip_section();
        } else if (directive.is(".pragma")) {
            cursor().expect(TokenKind::string, "a string");
            cursor().expect(";");
        } else if (directive.is(".loc")) {
            SourceLoc unused;
            parse_loc(cursor(), unused);
        } else {
            parse_declaration(directive);
        }
    }

    // DWARF data: labels, .b8 .b16 ... lists.
    void skip_section() {
        cursor().next();
        cursor().expect("{");
        while (!cursor().accept("}")) {
            if (cursor().at_end()) fail_at(cursor().peek(), "the text ends inside .section");
            cursor().next();
        }
    }

    void parse_declaration(Token token) {
        bool is_extern = false;
        while (token.is(".visible") || token.is(".extern") || token.is(".weak") || token.is(".common")) {
            is_extern |= token.is(".extern");
            token = cursor().next();
        }
        StateSpace space;
        if (token.is(".entry") || token.is(".func")) {
            parse_function(token.is(".entry"));
        } else if (find_space(token.text, space) && space != StateSpace::param && space != StateSpace::local) {
            parse_variables(space, is_extern);
        } else {
            fail_at(token, fmt::format("`{}` at module scope is not modelled", token.text));
        }
    }

    void parse_variables(StateSpace space, bool is_extern) {
        Declarator declarator;
        bool first = true;
        do {
            const Token where = cursor().peek();
            declarator = parse_declarator(cursor(), space, first ? nullptr : &declarator);
            first = false;
            Variable variable = declarator.variable;
            variable.is_extern = is_extern;
            if (declarator.count || declarator.type.cls == RegClass::pred) {
                fail_at(where, fmt::format("`{}` is not a variable of memory", variable.name));
            }
            add_variable(where, std::move(variable));
        } while (cursor().accept(","));
        cursor().expect(";");
    }

    // An .extern declaration may stand beside the definition.
    void add_variable(const Token& where, Variable variable) {
        for (Variable& other : module_->globals) {
            if (other.name != variable.name) continue;
            if (!other.is_extern && !variable.is_extern) {
                fail_at(where, fmt::format("`{}` is already declared", variable.name));
            }
            if (!variable.is_extern) other = std::move(variable);
            return;
        }
        module_->globals.push_back(std::move(variable));
    }

    void parse_function(bool is_entry) {
        Function function;
        function.is_entry = is_entry;
        FunctionParser body(cursor(), *module_, function, module_->source);
        if (!is_entry) {
            if (cursor().accept(".attribute")) skip_parentheses();
            if (cursor().at("(")) body.parse_parameters(true);
        }
        const Token name = cursor().expect(TokenKind::word, "the function's name");
        function.name = name.text;
        function.loc.ptx_line = name.line;
        if (cursor().at("(")) body.parse_parameters(false);
        while (cursor().peek().kind == TokenKind::dotted) parse_performance(function);
        if (cursor().at("{")) {
            function.has_body = true;
            const Function* other = module_->find(function.name);
            if (other && other->has_body) fail_at(name, fmt::format("function `{}` has two bodies", function.name));
            body.parse_body();
        } else {
            cursor().expect(";");
        }
        module_->functions.push_back(std::move(function));
    }

    void skip_parentheses() {
        cursor().expect("(");
        while (!cursor().accept(")")) {
            if (cursor().at_end()) fail_at(cursor().peek(), "the text ends inside parentheses");
            cursor().next();
        }
    }

    void parse_dimensions(uint32_t (&into)[3]) {
        into[0] = into[1] = into[2] = 1;
        size_t i = 0;
        do {
            if (i == 3) fail_at(cursor().peek(), "more than three dimensions");
            into[i++] = static_cast<uint32_t>(cursor().expect_integer("a dimension", kMaxDimension));
        } while (cursor().accept(","));
    }

    // PTX ISA 11.4: performance-tuning and cluster-dimension directives.
    void parse_performance(Function& function) {
        const Token directive = cursor().next();
        auto number = [&] { return static_cast<uint32_t>(cursor().expect_integer("a count", kMaxDimension)); };
        if (directive.is(".maxntid")) {
            parse_dimensions(function.max_threads);
        } else if (directive.is(".reqntid")) {
            parse_dimensions(function.required_threads);
        } else if (directive.is(".reqnctapercluster")) {
            parse_dimensions(function.required_cluster);
        } else if (directive.is(".minnctapersm")) {
            function.min_ctas_per_sm = number();
        } else if (directive.is(".maxnctapersm")) {
            number();
        } else if (directive.is(".maxnreg")) {
            function.max_registers = number();
        } else if (directive.is(".maxclusterrank")) {
            function.max_cluster_rank = number();
        } else if (directive.is(".explicitcluster")) {
            function.explicit_cluster = true;
        } else if (directive.is(".blocksareclusters")) {
            function.blocks_are_clusters = true;
        } else if (directive.is(".pragma")) {
            cursor().expect(TokenKind::string, "a string");
            cursor().accept(";");
        } else if (!directive.is(".noreturn")) {
            fail_at(directive, fmt::format("directive {} of a function is not modelled", directive.text));
        }
    }

    std::unique_ptr<Module> module_;
    Cursor* cursor_ = nullptr;
};

}  // namespace

bool Statement::has(std::string_view modifier) const {
    return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

const Function* Module::find(std::string_view name) const {
    const Function* found = nullptr;
    for (const Function& function : functions) {
        if (function.name == name && (!found || function.has_body)) found = &function;
    }
    return found;
}

const Variable* Module::find_variable(std::string_view name) const {
    for (const Variable& variable : globals) {
        if (variable.name == name) return &variable;
    }
    return nullptr;
}

std::unique_ptr<Module> parse_ptx(std::string_view text) {
    return ModuleParser(text).run();
}

}  // namespace nvfp4r::sim
