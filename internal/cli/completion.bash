# The package bash-completion has these helpers. Where it is missing, or is loaded later, these stand in.
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    # Sets cur, prev, words and cword of its caller. Words end at blanks alone, not at = and :.
    _get_comp_words_by_ref()
    {
        local line=${COMP_LINE:0:COMP_POINT}
        read -ra words <<<"$line"
        [[ $line == *[[:space:]] ]] && words+=("")
        cword=$((${#words[@]} - 1))
        cur=${words[cword]} prev=${words[cword > 0 ? cword - 1 : 0]}
    }
fi
if ! declare -F __ltrim_colon_completions >/dev/null; then
    # Leaves out what precedes the last colon of the word, since the shell keeps it.
    __ltrim_colon_completions()
    {
        [[ $1 == *:* && $COMP_WORDBREAKS == *:* ]] || return
        local i
        for i in "${!COMPREPLY[@]}"; do
            COMPREPLY[i]=${COMPREPLY[i]#"${1%"${1##*:}"}"}
        done
    }
fi
if ! declare -F _filedir >/dev/null; then
    _filedir()
    {
        local kind=-f
        [[ ${1-} == -d ]] && kind=-d
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen $kind -- "$cur")
    }
fi

