#!/bin/bash
# Ends with 0 where a role of Gamay in this container answers 200 at /health: with nothing but bash.
for port in ${GAMAY_HEALTH_PORT:-9000 8099 8098 9514}; do
    if exec 3<>"/dev/tcp/127.0.0.1/$port"; then
        printf 'GET /health HTTP/1.0\r\n\r\n' >&3
        read -r -t 4 _ status _ <&3
        [ "$status" = 200 ]
        exit
    fi
done 2>/dev/null
exit 1
