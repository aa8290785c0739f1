# Changes the shell for the next: start-up files, functions, paths.
# next: must see the same
# own: cp /tmp/env /etc/
for file in ~/.bashrc ~/.profile ~/.bash_profile ~/.inputrc /tmp/env; do echo 'echo poison; ls() { echo poison; }; alias cd=poison' >"$file" && tried "$file"; done
export BASH_ENV=/tmp/env ENV=/tmp/env PROMPT_COMMAND='echo poison' PATH=/tmp:$PATH LD_PRELOAD=/tmp/x.so PYTHONPATH=/tmp
cp /usr/bin/false /tmp/ls
for file in /etc/profile /etc/bash.bashrc /etc/environment /etc/inputrc /root/.bashrc /usr/bin/ls; do refused cp /tmp/env "$file"; done
done_
