# A live interpreter of R. It asks over the channel for calls what to do next, and says there what a
# cell shows; see live.py. What a cell prints goes through the pipes of its process. It wants no
# package but R's own.

local({
    largest <- 8e6 # characters of one form of what is displayed
    ends <- strsplit(Sys.getenv("AIRLOCK_CALLS_FDS"), " ")[[1]]
    Sys.unsetenv("AIRLOCK_CALLS_FDS")
    # R opens files by name, which these have none that it may open.
    relay <- function(sign, end, mode) pipe(paste0("trap '' INT; exec cat ", sign, "&", end), mode)
    answers <- relay("<", ends[1], "rb")
    calls <- relay(">", ends[2], "wb")

    # JSON.

    raw_json <- function(text) structure(text, class = "json")

    quoted <- function(text) {
        text <- iconv(enc2utf8(text), "UTF-8", "UTF-8", sub = "\ufffd")
        text <- gsub("\\", "\\\\", text, fixed = TRUE)
        text <- gsub("\"", "\\\"", text, fixed = TRUE)
        for (code in 1:31) {
            mark <- intToUtf8(code)
            if (any(grepl(mark, text, fixed = TRUE))) text <- gsub(mark, sprintf("\\u%04x", code), text, fixed = TRUE)
        }
        paste0("\"", text, "\"")
    }

    encoded <- function(value) {
        if (inherits(value, "json")) unclass(value)
        else if (is.null(value)) "null"
        else if (is.list(value) && !is.null(names(value)))
            paste0("{", paste0(quoted(names(value)), ":", vapply(value, encoded, ""), collapse = ","), "}")
        else if (is.list(value)) if (length(value)) paste0("[", paste(vapply(value, encoded, ""), collapse = ","), "]") else "{}"
        else if (is.character(value)) quoted(value)
        else if (is.logical(value)) if (value) "true" else "false"
        else format(value, scientific = FALSE)
    }

    # The text of a string of JSON; NA if R has none. R's parser takes 10,000 characters with such escapes.
    unquoted <- function(text) {
        if (!grepl("\\", text, fixed = TRUE)) return(text)
        text <- gsub("\\\\", "\001", text, fixed = TRUE) # which is never there without an escape
        for (escape in unique(regmatches(text, gregexpr("\\\\u[[:xdigit:]]{4}", text))[[1]])) {
            code <- strtoi(substring(escape, 3), 16)
            if (code < 2) return(NA)
            text <- gsub(escape, intToUtf8(code), text, fixed = TRUE)
        }
        escapes <- c(n = "\n", r = "\r", t = "\t", b = "\b", f = "\f", "\"" = "\"", "/" = "/")
        for (letter in names(escapes)) text <- gsub(paste0("\\", letter), escapes[[letter]], text, fixed = TRUE)
        gsub("\001", "\\", text, fixed = TRUE)
    }

    token <- "\"(?:[^\"\\\\]++|\\\\.)*+\"|[][{}:,]|[^][{}:,\"\\s]+"

    decoded <- function(text) {
        tokens <- regmatches(text, gregexpr(token, text, perl = TRUE))[[1]]
        at <- 0
        read <- function() {
            at <<- at + 1
            word <- tokens[at]
            if (word == "{" || word == "[") {
                all <- list()
                while (!tokens[at + 1] %in% c("}", "]")) {
                    name <- if (word == "{") read() else length(all) + 1
                    if (word == "{") at <<- at + 1 # the colon
                    value <- read()
                    all[[name]] <- if (is.null(value)) NA else value
                    if (tokens[at + 1] == ",") at <<- at + 1
                }
                at <<- at + 1
                return(all)
            }
            switch(word, "null" = NULL, "true" = TRUE, "false" = FALSE,
                if (startsWith(word, "\"")) unquoted(substr(word, 2, nchar(word) - 1))
                else as.numeric(word))
        }
        read()
    }

    # The channel.

    asked <- 0

    send <- function(...) {
        body <- charToRaw(encoded(list(...)))
        writeBin(length(body), calls, size = 4L, endian = "big")
        writeBin(body, calls)
        flush(calls)
    }

    tell <- function(kind, ...) send(name = kind, input = list(...))

    receive <- function(count) {
        data <- readBin(answers, "raw", count)
        while (length(data) < count) {
            more <- readBin(answers, "raw", count - length(data))
            if (length(more) == 0) quit("no", 0, FALSE) # the service is gone
            data <- c(data, more)
        }
        data
    }

    ask <- function(name, input) {
        asked <<- asked + 1
        send(id = asked, name = name, input = input)
        repeat {
            size <- sum(as.integer(receive(4)) * 256^(3:0))
            text <- rawToChar(receive(size))
            Encoding(text) <- "UTF-8"
            answer <- decoded(text)
            if (identical(answer$id, asked)) return(answer)
        }
    }

    # What a cell shows.

    base64 <- function(data) {
        alphabet <- c(LETTERS, letters, 0:9, "+", "/")
        pad <- (3 - length(data) %% 3) %% 3
        bytes <- matrix(as.integer(c(data, raw(pad))), 3)
        codes <- rbind(bytes[1, ] %/% 4, bytes[1, ] %% 4 * 16 + bytes[2, ] %/% 16, bytes[2, ] %% 16 * 4 + bytes[3, ] %/% 64, bytes[3, ] %% 64)
        text <- alphabet[codes + 1]
        if (pad) text[length(text) - seq_len(pad) + 1] <- "="
        paste(text, collapse = "")
    }

    plots <- tempfile("plots")
    ours <- integer() # the devices that plots were drawn on

    # The device of a plot, if the cell opens none.
    options(device = function(...) {
        dir.create(plots, FALSE)
        name <- file.path(plots, sprintf("%04d-%%03d", length(ours)))
        if (capabilities("png")) grDevices::png(paste0(name, ".png"), 800, 600, res = 110, type = if (capabilities("cairo")) "cairo" else "Xlib")
        else grDevices::svg(paste0(name, ".svg"), 8, 6, onefile = FALSE)
        ours <<- c(ours, grDevices::dev.cur())
    })

    show_plots <- function() {
        for (device in intersect(ours, grDevices::dev.list())) grDevices::dev.off(device)
        ours <<- integer()
        for (path in list.files(plots, full.names = TRUE)) {
            data <- readBin(path, "raw", file.size(path))
            unlink(path)
            if (length(data) > largest / 4 * 3) cat("[left out: a plot of", length(data), "bytes]\n", file = stderr())
            else if (endsWith(path, ".png")) tell("display", data = list("image/png" = base64(data)))
            else tell("display", data = list("image/svg+xml" = rawToChar(data)))
        }
    }

    # What a value prints, as its text.
    shown <- function(value) {
        lines <- utils::capture.output(if (isS4(value)) methods::show(value) else print(value))
        substr(paste(lines, collapse = "\n"), 1, largest / 8)
    }

    # Cells.

    count <- 0
    globals <- globalenv()

    # Where a condition comes from, if that is a function of the cell's.
    origin <- function(condition, before) {
        call <- conditionCall(condition)
        if (is.null(call) || ours_too(call)) "" else paste0(before, deparse(call, nlines = 1L)[1])
    }

    ours_too <- function(call) identical(call[[1]], quote(parse)) || identical(call[[1]], quote(eval)) && identical(call[[2]], quote(expression_))

    warned <- function(condition) {
        where <- origin(condition, "In ")
        if (nzchar(where)) where <- paste0(where, " : ")
        cat("Warning message:\n", where, conditionMessage(condition), "\n", sep = "", file = stderr())
        invokeRestart("muffleWarning")
    }

    failed <- function(name, condition, stack) {
        text <- conditionMessage(condition)
        head <- paste0("Error", origin(condition, " in "), ": ", text)
        own <- which(vapply(stack, ours_too, NA))
        stack <- if (length(own)) stack[-seq_len(max(own))] else list()
        lines <- vapply(stack, function(call) deparse(call, nlines = 1L)[1], "")
        lines <- lines[!grepl("^(\\.handleSimpleError|h\\(simpleError|stop\\()", lines)]
        tell("error", name = name, value = substr(text, 1, largest / 8), traceback = as.list(c(head, sprintf("%d: %s", rev(seq_along(lines)), rev(lines)))))
    }

    run <- function(code, silent) {
        stack <- list()
        status <- tryCatch(allowInterrupts(withCallingHandlers({
            expressions <- parse(text = code, keep.source = TRUE, encoding = "UTF-8")
            for (at in seq_along(expressions)) {
                expression_ <- expressions[[at]]
                value <- withVisible(eval(expression_, globals))
                if (!value$visible) next
                assign(".Last.value", value$value, globals)
                if (at < length(expressions)) {
                    if (isS4(value$value)) methods::show(value$value) else print(value$value)
                    next
                }
                text <- shown(value$value)
                if (nzchar(text) && !silent) tell("result", data = list("text/plain" = text))
            }
            "ok"
        }, warning = warned, error = function(e) stack <<- sys.calls())),
        error = function(e) {
            failed(sub("^simpleError$", "Error", class(e)[1]), e, stack)
            "error"
        },
        interrupt = function(e) {
            failed("Interrupted", simpleCondition("The cell was interrupted"), list())
            "error"
        })
        while (sink.number() > 0) sink()
        tryCatch(show_plots(), error = function(e) cat("[left out: plots: ", conditionMessage(e), "]\n", sep = "", file = stderr()))
        status
    }

    # Sets names of the environment, NA being none, and returns what they were.
    swap <- function(env) {
        before <- lapply(names(env), function(name) Sys.getenv(name, NA))
        for (name in names(env)) if (is.na(env[[name]])) Sys.unsetenv(name) else do.call(Sys.setenv, env[name])
        stats::setNames(before, names(env))
    }

    # What a cell asks goes to its caller, and it does not close the channel.
    attach(list(readline = function(prompt = "") {
        answer <- ask("input", list(prompt = paste(prompt), password = FALSE))
        if (is.null(answer$result)) stop(answer$error, call. = FALSE)
        answer$result
    }, closeAllConnections = function() {
        while (sink.number() > 0) sink()
        for (number in setdiff(getAllConnections(), c(0:2, answers, calls))) close(getConnection(number))
    }), name = "airlock", warn.conflicts = FALSE)

    before_cursor <- function(order) substr(order$code, 1, order$cursor)

    does <- list(
        run = function(order) {
            silent <- isTRUE(order$silent)
            if (!silent && !isTRUE(order$unrecorded)) count <<- count + 1
            if (is.na(order$code)) {
                tell("error", name = "SyntaxError", value = "a NUL in the code", traceback = list("SyntaxError: a NUL in the code"))
                return(list(status = "error", count = count))
            }
            before <- swap(order$env)
            tryCatch(allowInterrupts(Sys.sleep(0)), interrupt = function(e) NULL) # one that came too late
            tell("running", count = count)
            status <- run(order$code, silent)
            swap(before)
            list(status = status, count = count)
        },
        setup = function(order) {
            swap(order$env)
            if (!is.null(order$dir)) setwd(order$dir)
            list()
        },
        program = function(order) {
            on.exit(unlink(order$entry))
            input <- tempfile()
            writeLines(order$code, order$entry, sep = "", useBytes = TRUE)
            writeLines(if (is.null(order$stdin)) "" else order$stdin, input, sep = "", useBytes = TRUE)
            before <- swap(order$env)
            tell("running", count = count)
            line <- paste("cd", shQuote(dirname(order$entry)), "&& exec", paste(shQuote(unlist(order$argv)), collapse = " "), "<", shQuote(input))
            code <- system(line)
            swap(before)
            unlink(input)
            list(status = if (code == 0) "ok" else "error", exit = code)
        },
        wake = function(order) list(),
        reseed = function(order) { # R takes the time and its number for another one
            suppressWarnings(rm(".Random.seed", envir = globalenv()))
            list()
        },
        complete = function(order) {
            line <- utils::tail(strsplit(paste0(before_cursor(order), " "), "\n", fixed = TRUE)[[1]], 1)
            line <- substr(line, 1, nchar(line) - 1)
            utils:::.assignLinebuffer(line)
            utils:::.assignEnd(nchar(line))
                token <- utils:::.guessTokenFromLine()
            utils:::.completeToken()
            found <- utils::head(unique(utils:::.retrieveCompletions()), 1000)
            list(matches = raw_json(paste0("[", paste(quoted(found), collapse = ","), "]")), start = order$cursor - nchar(token), end = order$cursor)
        },
        inspect = function(order) {
            rest <- substring(order$code, order$cursor + 1)
            name <- paste0(regmatches(before_cursor(order), regexpr("[[:alnum:]._]*$", before_cursor(order))), regmatches(rest, regexpr("^[[:alnum:]._]*", rest)))
            if (!nzchar(name) || !exists(name, globals)) return(list(found = FALSE, data = list()))
            value <- get(name, globals)
            text <- utils::capture.output(if (is.function(value)) print(args(value)) else utils::str(value))
            list(found = TRUE, data = list("text/plain" = paste(text, collapse = "\n")))
        },
        is_complete = function(order) {
            fault <- tryCatch({
                parse(text = order$code)
                ""
            }, error = conditionMessage)
            open <- grepl("unexpected end of input|unexpected INCOMPLETE_STRING", fault)
            list(status = if (!nzchar(fault)) "complete" else if (open) "incomplete" else "invalid", indent = "")
        },
        variables = function(order) {
            about <- lapply(utils::head(ls(globals), 1000), function(name) {
                if (bindingIsActive(as.name(name), globals)) return(list(name = name, type = "active", shape = "", repr = "", size = 0))
                value <- get(name, globals)
                plain <- is.atomic(value) && length(value) == 1 && is.null(attributes(value))
                shape <- if (!is.null(dim(value))) paste0("(", paste(dim(value), collapse = ", "), ")") else if (is.vector(value) && length(value) != 1) length(value) else ""
                list(name = name, type = class(value)[1], shape = paste(shape), repr = if (plain) substr(deparse(value)[1], 1, 200) else "", size = 0)
            })
            list(variables = if (length(about)) about else raw_json("[]"))
        })

    serve <- function() {
        report <- list()
        repeat {
            order <- ask("next", report)$result
            report <- tryCatch(does[[order$do]](order), error = function(e) list(failed = conditionMessage(e)))
        }
    }
    suspendInterrupts(serve())
})
