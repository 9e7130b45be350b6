-- Vivace in Neovim 0.10 and newer: ghost text, edits by instruction, status. What is shown and when
-- is decided by `vivace lsp`; here it is only drawn, and from 0.12 on Neovim draws it itself.

local M = { status = { state = "ready", why = "" } }

local api = vim.api
local COMPLETION = "textDocument/inlineCompletion"
local ghosts = api.nvim_create_namespace("vivace.ghosts")
local hunks = api.nvim_create_namespace("vivace.hunks")
local settings = {}
local suggestions = {} -- by buffer: { row, start, text, behind, command }, all columns in bytes
local newest = {} -- by buffer: the number of the newest request

local function built_in()
  return vim.lsp.inline_completion ~= nil
end

local function since_0_11()
  return vim.fn.has("nvim-0.11") == 1
end

local function client_of(buf)
  return vim.lsp.get_clients({ name = "vivace", bufnr = buf })[1]
end

local function request(client, method, params, handler, buf)
  if since_0_11() then
    return client:request(method, params, handler, buf)
  end
  return client.request(method, params, handler, buf)
end

local function line_of(buf, row)
  return api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ""
end

local function byte_column(line, character, encoding)
  if since_0_11() then
    return vim.str_byteindex(line, encoding, character, false)
  end
  return vim.lsp.util._str_byteindex_enc(line, character, encoding)
end

-- Suggestions --------------------------------------------------------------------------------------

-- A suggestion is for the line as it was when it was asked for, and the person types on: its end is
-- remembered by what stands behind it, which typing does not change.
local function remember(client, buf, line, result)
  local item = result and (result.items or result)[1]
  local range = item and item.range
  if not range then
    suggestions[buf] = nil
    return
  end
  local encoding = client.offset_encoding
  suggestions[buf] = {
    row = range.start.line,
    start = byte_column(line, range.start.character, encoding),
    text = item.insertText,
    command = item.command,
    behind = #line - byte_column(line, range["end"].character, encoding),
  }
end

-- What of the suggestion is not typed yet, and where the text that it takes the place of ends; nil
-- where the text is not what it was made for any more.
local function rest_of(buf)
  local known = suggestions[buf]
  if not known or api.nvim_get_current_buf() ~= buf then
    return nil
  end
  local row, column = unpack(api.nvim_win_get_cursor(0))
  local line = line_of(buf, known.row)
  local typed, finish = line:sub(known.start + 1, column), #line - known.behind
  local fits = row - 1 == known.row and column >= known.start and finish >= column
  if not fits or not vim.startswith(known.text, typed) or #known.text == #typed then
    return nil
  end
  return known.text:sub(#typed + 1), known.row, column, finish
end

-- Tells the server that its suggestion was taken.
local function tell_accepted(buf, command)
  local client = client_of(buf)
  if client and command then
    local params = { command = command.command, arguments = command.arguments }
    request(client, "workspace/executeCommand", params, function() end, buf)
  end
end

local function insert(buf)
  local rest, row, column, finish = rest_of(buf)
  local command = rest and suggestions[buf].command
  suggestions[buf] = nil
  if not rest then
    return false
  end
  vim.cmd("let &undolevels = &undolevels") -- it can be undone without what was typed before it
  local lines = vim.split(rest, "\n", { plain = true })
  api.nvim_buf_set_text(buf, row, column, row, finish, lines)
  local last = #lines[#lines]
  api.nvim_win_set_cursor(0, { row + #lines, #lines == 1 and column + last or last })
  tell_accepted(buf, command)
  return true
end

local function draw(buf)
  api.nvim_buf_clear_namespace(buf, ghosts, 0, -1)
  local rest, row, column, finish = rest_of(buf)
  if not rest or api.nvim_get_mode().mode:sub(1, 1) ~= "i" then
    return
  end
  local lines = vim.tbl_map(function(line)
    return { { line, "Comment" } }
  end, vim.split(rest, "\n", { plain = true }))
  api.nvim_buf_set_extmark(buf, ghosts, row, column, {
    virt_text = lines[1],
    virt_text_pos = finish > column and "overlay" or "inline",
    virt_lines = { unpack(lines, 2) },
    hl_mode = "combine",
  })
end

local function ask(buf)
  local client = client_of(buf)
  if not client then
    return
  end
  newest[buf] = (newest[buf] or 0) + 1
  local mine, line = newest[buf], line_of(buf, api.nvim_win_get_cursor(0)[1] - 1)
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = 2 } -- automatic
  request(client, COMPLETION, params, function(_, result)
    if mine == newest[buf] and api.nvim_buf_is_valid(buf) then
      remember(client, buf, line, result)
      draw(buf)
    end
  end, buf)
end

local function draw_ourselves(buf)
  local group = api.nvim_create_augroup("vivace.buffer." .. buf, {})
  local on = function(events, callback)
    api.nvim_create_autocmd(events, { group = group, buffer = buf, callback = callback })
  end
  on({ "InsertEnter", "CursorMovedI", "TextChangedI", "TextChangedP" }, function()
    draw(buf)
    ask(buf)
  end)
  on("InsertLeave", function()
    newest[buf] = (newest[buf] or 0) + 1
    suggestions[buf] = nil
    draw(buf)
  end)
end

-- Neovim's own accept puts the text into the place that it had when it was asked for, in spite of
-- what was typed since. So its requests are looked at, and the text is put in by `insert`.
local function let_neovim_draw(client, buf)
  if not client.vivace_watched then
    client.vivace_watched = true
    local plain = client.request
    client.request = function(self, method, params, handler, bufnr)
      if method ~= COMPLETION then
        return plain(self, method, params, handler, bufnr)
      end
      local line = line_of(bufnr, params.position.line)
      return plain(self, method, params, function(err, result, context, config)
        if result then
          remember(self, bufnr, line, result)
        end
        return handler(err, result, context, config)
      end, bufnr)
    end
  end
  vim.lsp.inline_completion.enable(true, { bufnr = buf })
end

local function type_key(key)
  api.nvim_feedkeys(api.nvim_replace_termcodes(key, true, false, true), "n", false)
end

--- Accept what is shown. False where nothing is, so that a key can do what it does otherwise.
function M.accept()
  local buf = api.nvim_get_current_buf()
  if built_in() then
    return vim.lsp.inline_completion.get({
      on_accept = function(item)
        local client = vim.lsp.get_client_by_id(item.client_id)
        if not client or client.name ~= "vivace" then
          return item
        end
        if not insert(buf) then
          type_key(settings.accept)
        end
      end,
    })
  end
  if not rest_of(buf) then
    return false
  end
  vim.schedule(function() -- a mapping by expression may not change the text
    if not insert(buf) then
      type_key(settings.accept) -- it is evaluated before the key that was typed just before it
    end
    draw(buf)
  end)
  return true
end

local function map_accept(buf)
  local key = settings.accept
  local taken = key and vim.fn.maparg(key, "i", false, true) or {}
  local snippet = (taken.desc or ""):find("vim.snippet", 1, true) -- Neovim's own, kept below
  if not key or (taken.lhs and not snippet) then
    return -- the person's key stays theirs; it may call accept() itself
  end
  vim.keymap.set("i", key, function()
    if vim.fn.pumvisible() == 0 and M.accept() then
      return ""
    end
    if vim.snippet and vim.snippet.active({ direction = 1 }) then
      return "<Cmd>lua vim.snippet.jump(1)<CR>"
    end
    return key
  end, { buffer = buf, expr = true, desc = "Accept Vivace's suggestion" })
end

-- Edits --------------------------------------------------------------------------------------------

local function execute(command, argument, done)
  local client = client_of(0)
  if not client then
    vim.notify("Vivace does not run in this buffer.", vim.log.levels.WARN)
    return
  end
  local params = { command = command, arguments = { argument } }
  -- With 0 for the buffer, Neovim does not tell the server first what was typed just before.
  request(client, "workspace/executeCommand", params, function(err, result)
    if err then
      vim.notify(err.message, vim.log.levels.ERROR)
    elseif done then
      done(result)
    end
  end, api.nvim_get_current_buf())
end

local function with_words(words, prompt, use)
  if words ~= "" then
    use(words)
    return
  end
  vim.ui.input({ prompt = prompt }, function(given)
    if given and given ~= "" then
      use(given)
    end
  end)
end

--- Edit by instruction. Without a range: the definition around the cursor.
function M.edit(instruction, range)
  local uri = vim.uri_from_bufnr(0)
  if not range then
    local place = vim.lsp.util.make_position_params(0, (client_of(0) or {}).offset_encoding or "utf-16")
    range = { start = place.position, ["end"] = place.position }
  end
  with_words(instruction or "", "Edit: ", function(words)
    execute("vivace.edit", { uri = uri, instruction = words, range = range })
  end)
end

--- Rename what stands at the cursor, with its uses; no model is asked.
function M.rename(name)
  local uri, old = vim.uri_from_bufnr(0), vim.fn.expand("<cword>")
  local place = vim.lsp.util.make_position_params(0, (client_of(0) or {}).offset_encoding or "utf-16")
  with_words(name or "", "Rename " .. old .. " to: ", function(words)
    execute("vivace.rename", { uri = uri, position = place.position, newName = words })
  end)
end

function M.redirect(instruction)
  local uri = vim.uri_from_bufnr(0)
  with_words(instruction or "", "Rather: ", function(words)
    execute("vivace.redirect", { uri = uri, instruction = words })
  end)
end

function M.stop()
  execute("vivace.stop", { uri = vim.uri_from_bufnr(0) })
end

function M.pause()
  execute("vivace.pause", { paused = M.status.state ~= "paused" })
end

local function show_edit(_, shown)
  local buf = vim.uri_to_bufnr(shown.uri)
  if not api.nvim_buf_is_loaded(buf) then
    return
  end
  api.nvim_buf_clear_namespace(buf, hunks, 0, -1)
  local last = api.nvim_buf_line_count(buf) - 1
  for _, hunk in ipairs(shown.done and {} or shown.hunks) do
    local first, finish = hunk.range.start.line, hunk.range["end"].line
    if finish <= last + 1 then
      local lines = vim.split((hunk.newText:gsub("\n$", "")), "\n", { plain = true })
      api.nvim_buf_set_extmark(buf, hunks, math.min(first, last), 0, {
        end_row = finish,
        hl_group = finish > first and "DiffDelete" or nil,
        hl_eol = true,
        virt_lines_above = true,
        virt_lines = hunk.newText ~= "" and vim.tbl_map(function(line)
          return { { line, "DiffAdd" } }
        end, lines) or nil,
      })
    end
  end
end

-- Setting up ---------------------------------------------------------------------------------------

--- For a status line: what goes on, and why nothing comes.
function M.statusline()
  local status = M.status
  local speed = type(status.speed) == "number" and (" %.0f/s"):format(status.speed) or ""
  local why = status.why ~= "" and ": " .. status.why or ""
  return "Vivace " .. status.state .. speed .. why
end

local function show_status(_, status)
  M.status = status
  vim.cmd.redrawstatus()
end

local function capabilities()
  local all = vim.lsp.protocol.make_client_capabilities()
  all.textDocument.inlineCompletion = { dynamicRegistration = false }
  all.experimental = { vivace = { edit = true, status = true, instruction = true, rename = true } }
  return all
end

local function start(buf)
  if vim.bo[buf].buftype ~= "" or api.nvim_buf_get_name(buf) == "" then
    return
  end
  vim.lsp.start({
    name = "vivace",
    cmd = settings.cmd,
    cmd_env = settings.key_env and { VIVACE_KEY = os.getenv(settings.key_env) } or nil,
    root_dir = vim.fs.root(buf, { ".git" }) or vim.fs.dirname(api.nvim_buf_get_name(buf)),
    init_options = settings.init_options,
    capabilities = capabilities(),
    handlers = { ["vivace/status"] = show_status, ["vivace/edit"] = show_edit },
    on_attach = function(client, attached)
      if built_in() then
        let_neovim_draw(client, attached)
      else
        draw_ourselves(attached)
      end
      map_accept(attached)
    end,
  }, { bufnr = buf })
end

local function lines_of(given)
  if given.range == 0 then
    return nil
  end
  return {
    start = { line = given.line1 - 1, character = 0 },
    ["end"] = { line = given.line2, character = 0 },
  }
end

local function define_commands()
  local command = api.nvim_create_user_command
  command("VivaceEdit", function(given)
    M.edit(given.args, lines_of(given))
  end, { nargs = "*", range = true, desc = "Edit the lines, or the definition here, as told" })
  command("VivaceRename", function(given)
    M.rename(given.args)
  end, { nargs = "?", desc = "Rename what stands here, with its uses, without a model" })
  command("VivaceRedirect", function(given)
    M.redirect(given.args)
  end, { nargs = "*", desc = "Have the running edit take another direction" })
  command("VivaceStop", M.stop, { desc = "Leave the running edit" })
  command("VivacePause", M.pause, { desc = "Let completions rest, or come again" })
  command("VivaceStatus", function()
    vim.notify(M.statusline())
  end, { desc = "What goes on, and why nothing comes" })
  vim.lsp.commands["vivace.rename"] = function() -- a code action, at the cursor
    M.rename()
  end
  vim.lsp.commands["vivace.edit"] = function(given) -- a code action
    local argument = given.arguments[1]
    with_words(argument.instruction or "", "Edit: ", function(words)
      execute("vivace.edit", vim.tbl_extend("force", argument, { instruction = words }))
    end)
  end
end

--- cmd: how `vivace lsp` is started. key_env: the environment variable that holds the server's key.
--- accept: the key that accepts, or false. init_options: settings of the server.
function M.setup(given)
  settings = vim.tbl_extend("force", { cmd = { "vivace", "lsp" }, accept = "<Tab>" }, given or {})
  define_commands()
  local group = api.nvim_create_augroup("vivace", {})
  api.nvim_create_autocmd("FileType", {
    group = group,
    callback = function(event)
      start(event.buf)
    end,
  })
  for _, buf in ipairs(api.nvim_list_bufs()) do
    if api.nvim_buf_is_loaded(buf) and vim.bo[buf].filetype ~= "" then
      start(buf)
    end
  end
end

return M
