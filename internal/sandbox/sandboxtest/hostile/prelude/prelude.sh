_tried=0
tried() { _tried=$((_tried + 1)); printf 'H:%s:tried:%s\n' "$H_NONCE" "$*"; }
breach() { printf 'H:%s:breach:%s\n' "$H_NONCE" "$*"; }
refused() { if "$@" >/dev/null 2>&1; then breach "$*"; fi; tried "$*"; }
done_() { printf 'H:%s:done:%s\n' "$H_NONCE" "$_tried"; }
