# Uses what a shell has for talking to others.
refused timeout 1 bash -c "exec 3<>/dev/tcp/127.0.0.1/$H_TCP"
refused timeout 1 bash -c "exec 3<>/dev/tcp/${H_ADDRESS:-10.0.0.1}/$H_TCP"
refused timeout 1 bash -c "exec 3<>/dev/tcp/example.org/80"
refused timeout 1 bash -c "echo x >/dev/udp/8.8.8.8/53"
for tool in "curl -sS -m 1 http://example.org" "wget -T 1 -t 1 -qO- http://example.org" "nc -w 1 8.8.8.8 53" "ssh -o ConnectTimeout=1 example.org" "ping -c 1 -W 1 8.8.8.8" "git ls-remote https://example.org/x" \
	"apt-get -o Acquire::http::Timeout=1 update" "getent hosts example.org" "ip link add x type dummy" "ip addr add 8.8.8.8/32 dev lo" "python3 -m pip download --timeout 1 --retries 0 six" "openssl s_client -connect 8.8.8.8:443" "dig example.org"; do
	refused timeout 5 $tool </dev/null
done
done_
