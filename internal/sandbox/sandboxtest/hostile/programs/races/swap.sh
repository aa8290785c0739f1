# Swaps a file for a link while the files are collected.
tried "swap"
mkdir d
(while :; do ln -sfn "$H_FILE" a; echo x >b; mv -f b a; ln -sfn /etc d/e; rm -f d/e; mv d f; ln -s / d; rm d; mv f d; done) >/dev/null 2>&1 &
setsid bash -c 'while :; do rm -rf g; mkfifo g; rm g; echo x > g; done' >/dev/null 2>&1 &
sleep 0.2
done_
