"""Which files an edit leaves alone unless the person names them, and which it may change."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from vivace.workspace.protected import is_short_name, plain_name, table, why_protected

PROJECT = Path(__file__).parents[2]


def refused(path: str) -> bool:
    return why_protected(path.split("/")) is not None


# -- what runs by itself --------------------------------------------------------------------------

RUNS_BY_ITSELF = """
    .git/config a/b/.git .gitmodules .gitattributes .gitconfig .hg/hgrc .jj/repo/config.toml
    scripts/hooks/pre-commit tools/hooks/commit-msg .husky/pre-push .githooks/post-merge
    .pre-commit-config.yaml .pre-commit-hooks.yaml prek.toml lefthook.yml .lefthook.toml hk.pkl
    .overcommit.yml .lintstagedrc.json captainhook.json

    .zshrc .zshrc.local .bash_aliases .xprofile .profile .config/fish/config.fish fish/config.fish
    dotfiles/bashrc dot_zshenv profile.ps1 .envrc mise.toml .mise.toml mise/config.toml
    mise-tasks/build .tool-versions .python-version rust-toolchain.toml global.json flake.nix
    devbox.json .tmux.conf .ssh/authorized_keys library/LaunchAgents/x.plist

    .vscode/settings.json .vscode/tasks.json x.code-workspace a/.idea/x.xml .run/x.run.xml
    ci/x.run.xml .zed/tasks.json .nvim.lua .exrc .dir-locals.el x.sublime-project .helix/config.toml
    .editorconfig .devcontainer/devcontainer.json .ycm_extra_conf.py .clangd

    opencode.json opencode.jsonc .opencode/plugin/x.js .opencode/command/x.md crush.json crushrc
    .crush.json kilo.jsonc .clinerules/hooks/PreToolUse .roo/mcp.json .windsurf/hooks.json
    .kiro/hooks/x.kiro.hook .qwen/settings.json .amp/settings.json .kilocode/mcp.json .goosehints
    .claude/settings.json .codex/config.toml .cursor/hooks.json .gemini/settings.json .mcp.json
    tools/mcp.json plugin/hooks/hooks.json .aider.conf.yml .github/hooks/x.json

    .github/workflows/ci.yml .github/actions/x/action.yml .gitea/workflows/a.yml
    .forgejo/workflows/a.yml .gitlab-ci.yml ci/test.gitlab-ci.yml .gitlab/ci/a.yml
    bitbucket-pipelines.yml appveyor.yml .appveyor.yml .cirrus.yml .semaphore/semaphore.yml
    cloudbuild.yaml buildspec.yml .tekton/a.yaml .woodpecker.yml .woodpecker/a.yml .drone.jsonnet
    .drone.yml .buildkite/pipeline.yml .circleci/config.yml .travis.yml azure-pipelines.yml
    azure-pipelines-nightly.yml Jenkinsfile ci/Jenkinsfile.release netlify.toml .readthedocs.yaml

    .gdbinit .gdbearlyinit build/prog-gdb.py .lldbinit .pdbrc .pythonstartup sitecustomize.py
    a/b/usercustomize.py x.pth .Rprofile .irbrc .pryrc .iex.exs .formatter.exs .ghci .psqlrc

    .npmrc .pnpmfile.cjs .yarnrc.yml .yarn/releases/yarn.cjs bunfig.toml .cargo/config.toml pip.conf
    uv.toml .bundle/config nuget.config .mvn/extensions.xml mvnw gradlew
    gradle/wrapper/gradle-wrapper.properties .bazelrc tools/bazel ansible.cfg .latexmkrc

    .eslintrc.json .prettierrc .pylintrc .flake8 .rubocop.yml
    vivace.toml .vivace/config.toml keys.json
"""


@pytest.mark.parametrize("path", RUNS_BY_ITSELF.split())
def test_what_runs_by_itself_is_protected(path: str) -> None:
    assert refused(path)
    assert refused(f"packages/one/{path}")


@pytest.mark.parametrize(
    "path", [".unheard-of/settings.json", ".newagentrc", "a/.tool.json", ".storybook/.x/y.sh"]
)
def test_the_settings_of_an_unknown_tool_are_protected(path: str) -> None:
    assert refused(path)


@pytest.mark.parametrize(
    "path",
    [
        ".GIT/HEAD",
        "Vivace.TOML.",
        "OpenCode.JSON",
        ".g\u200cit/config",
        "\uff0ecargo/config.toml",
        ".npmrc ",
        ".npmrc::$DATA",
        ".VSCODE./tasks.json",
        "jenkinsf\u0131le",
    ],
)
def test_no_spelling_of_a_name_gets_around_it(path: str) -> None:
    assert refused(path)


# -- what an edit may change ----------------------------------------------------------------------

EVERYDAY = """
    README.md CHANGELOG.md LICENSE AGENTS.md CLAUDE.md GEMINI.md CONTRIBUTING.md CITATION.cff
    src/main.py src/index.ts lib/profile.py src/github/workflows.py git/config.py idea/x.py
    src/hooks/useThing.ts src/hooks/index.js a.git gitlab-ci.md src/mise/tasks.py
    vscode/settings.json

    package.json package-lock.json pnpm-lock.yaml pnpm-workspace.yaml yarn.lock tsconfig.json
    jsconfig.json vite.config.ts vitest.config.ts webpack.config.js rollup.config.mjs jest.config.js
    eslint.config.js prettier.config.js babel.config.js tailwind.config.js postcss.config.js
    next.config.js nuxt.config.ts svelte.config.js astro.config.mjs angular.json nx.json turbo.json
    lerna.json deno.json biome.json playwright.config.ts karma.conf.js gulpfile.js Gruntfile.js

    pyproject.toml setup.py setup.cfg conftest.py tests/conftest.py tox.ini noxfile.py pytest.ini
    requirements.txt requirements-dev.txt Pipfile poetry.lock uv.lock manage.py tasks.py mypy.ini
    ruff.toml environment.yml MANIFEST.in

    Cargo.toml Cargo.lock build.rs rustfmt.toml clippy.toml go.mod go.sum main.go Makefile
    GNUmakefile
    CMakeLists.txt CMakePresets.json meson.build configure.ac BUILD.bazel WORKSPACE MODULE.bazel
    justfile Taskfile.yml Rakefile Gemfile Gemfile.lock x.gemspec composer.json mix.exs rebar.config
    build.gradle build.gradle.kts settings.gradle gradle.properties gradle/libs.versions.toml
    pom.xml
    build.sbt project/plugins.sbt Package.swift Podfile x.csproj x.sln Directory.Build.props
    App.config appsettings.json stack.yaml cabal.project x.cabal dune-project default.nix

    Dockerfile Dockerfile.dev docker-compose.yml compose.yaml Containerfile Procfile Vagrantfile
    Tiltfile skaffold.yaml Chart.yaml values.yaml kustomization.yaml main.tf variables.tf
    playbook.yml nginx.conf deploy/x.service action.yml renovate.json wrangler.toml firebase.json
    config/application.rb config/environments/test.rb migrations/0001_initial.py schema.sql

    .gitignore a/.gitignore .dockerignore .npmignore .prettierignore .eslintignore .helmignore
    .gitkeep .mailmap .git-blame-ignore-revs .nvmrc .node-version .ruby-version .clang-format
    .yamllint .markdownlint.json .hadolint.yaml .env.example .codecov.yml .all-contributorsrc
    .github/CODEOWNERS .github/FUNDING.yml .github/dependabot.yml .github/ISSUE_TEMPLATE/bug.yml
    .github/pull_request_template.md .github/copilot-instructions.md
    .gitlab/issue_templates/bug.md .storybook/main.ts docs/.vitepress/config.ts .changeset/a-b.md
    public/.well-known/security.txt

    run_tests.py dot_product.py test/dot_test.rb src/nvim.rc icon.rc scripts/install ci/test.sh
"""


@pytest.mark.parametrize("path", EVERYDAY.split())
def test_an_everyday_file_may_be_changed(path: str) -> None:
    assert why_protected(path.split("/")) is None


def test_of_our_own_files_only_what_runs_by_itself_is_protected() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, check=False)
    files = listed.stdout.decode().split("\n")[:-1]
    if len(files) < 1000:
        pytest.skip("this is no git work tree")
    folders = re.compile(r"\.github/workflows/|\.ci/|\.pre-commit-hooks\.yaml|.*/\.npmrc")
    others = [each for each in files if refused(each) and not folders.match(each)]
    assert others == [
        "docs/reference/vivace.toml",
        "scripts/docs_stand_ins/vivace.toml",
        "src/vivace/workspace/redirect/sitecustomize.py",
    ]


# -- the table ------------------------------------------------------------------------------------


def test_every_entry_has_a_reason_and_a_page_that_gives_it() -> None:
    for entry in table().protected:
        assert entry.patterns, entry.tool
        assert entry.reason.strip(" .") == entry.reason
        assert len(entry.reason) > 20, entry.tool
        assert entry.source.startswith("https://") or (PROJECT / entry.source).is_file()


def test_a_pattern_stands_once_and_as_names_are_compared() -> None:
    known = table()
    patterns = [each for entry in known.protected for each in entry.patterns]
    patterns += known.editable.patterns
    assert len(set(patterns)) == len(patterns)
    for each in patterns:
        names = each.rstrip("/").split("/")
        assert [plain_name(name) for name in names] == names


def test_every_pattern_is_found_and_gives_its_own_reason() -> None:
    for entry in table().protected:
        for pattern in entry.patterns:
            path = pattern.replace("*", "x").replace("?", "x")
            path = f"{path}some/file" if path.endswith("/") else path
            why = why_protected(["a", *path.upper().split("/")])
            reasons = {each.reason for each in table().protected}
            assert why in reasons, pattern
            if "*" not in pattern and "/" not in pattern:
                assert why == entry.reason, pattern


def test_every_editable_name_is_one_that_would_be_refused_else() -> None:
    for pattern in table().editable.patterns:
        path = pattern.replace("*", "x")
        path = f"{path}some-file" if path.endswith("/") else path
        assert not refused(path), pattern
        assert any(name.startswith(".") for name in path.split("/")), pattern


@pytest.mark.parametrize("name", ["GIT~1", ".git~2", "VSCODE~1", "PRE-CO~1.YAM", "PR1A2B~4.YAM"])
def test_a_short_name_of_windows_is_known(name: str) -> None:
    assert is_short_name(name)


@pytest.mark.parametrize("name", ["a.py~", "draft~final.py", "longername~1", "a~b", "x~1.html5"])
def test_another_name_with_a_tilde_is_no_short_name(name: str) -> None:
    assert not is_short_name(name)
