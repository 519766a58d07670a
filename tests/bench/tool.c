/*
 * What the benchmark needs beside wrk:
 *   tool respond PORT SIZE       answers every request with SIZE bytes and does nothing else: the limit of any server
 *   tool slow PORT PATH COUNT    COUNT clients that read PATH a little at a time; "ready" when each has read something
 * A whole request must come in one segment. For measuring on this machine, never for a network.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void need(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static struct sockaddr_in local(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* One answer for each request in the buffer, in one write. */
static int answer(int client, const char *response, size_t length)
{
    static char input[65536];
    static char output[1 << 20];
    ssize_t got = recv(client, input, sizeof input, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN))
        return 0;
    if (got < 0)
        return 1;
    size_t count = 0;
    for (char *at = input; (at = memmem(at, (size_t)(input + got - at), "\r\n\r\n", 4)); at += 4)
        if ((count + 1) * length <= sizeof output)
            memcpy(output + count++ * length, response, length);
    if (count > 0 && write(client, output, count * length) < 0)
        return 0;
    return memmem(input, (size_t)got, "close\r\n", 7) == NULL;
}

static void respond(const char *port, size_t size)
{
    int on = 1, seconds = 10, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = local(port);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
    need(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    need(listen(listener, 4096) == 0, "listen");
    char *response = calloc(1, size + 512);
    /* A head as large as a real one's, so that the same bytes go over the wire. */
    int head = sprintf(response,
                       "HTTP/1.1 200 OK\r\nServer: responder\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\nContent-Type: application/octet-stream\r\n"
                       "Content-Length: %zu\r\nLast-Modified: Mon, 30 Nov 2026 10:00:00 GMT\r\nETag: \"6a1b2c3d.0-400\"\r\n"
                       "Accept-Ranges: bytes\r\nX-Content-Type-Options: nosniff\r\n\r\n",
                       size);
    size_t length = (size_t)head + size;
    int poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[512];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(poller, events, 512, -1);
        for (int index = 0; index < count; index++) {
            int client = events[index].data.fd, added = 1;
            if (client == listener) {
                client = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (client < 0)
                    continue;
                added = 0;
            }
            if (!answer(client, response, length)) {
                close(client);
            } else if (!added) {
                struct epoll_event wanted = {.events = EPOLLIN | EPOLLET, .data.fd = client};
                epoll_ctl(poller, EPOLL_CTL_ADD, client, &wanted);
            }
        }
    }
}

/* Slow readers that read before a pause of 2 ms: 500 of them read ten times a second each. */
enum { AT_ONCE = 10 };

static void slow(const char *port, const char *path, int count)
{
    struct sockaddr_in address = local(port);
    int *clients = calloc((size_t)count, sizeof *clients), window = 4096;
    char request[512], piece[1024];
    int length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    for (int index = 0; index < count; index++) {
        clients[index] = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(clients[index], SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
        need(connect(clients[index], (struct sockaddr *)&address, sizeof address) == 0, "connect");
        need(write(clients[index], request, (size_t)length) == length, "write");
    }
    for (int round = 0;; round++) {
        for (int index = 0; index < count; index++) {
            ssize_t got = recv(clients[index], piece, sizeof piece, round == 0 ? 0 : MSG_DONTWAIT);
            need(got > 0 || (got < 0 && errno == EAGAIN), "recv");
            /* A few at a time: all of them at once, with what the kernel does for each, would hold up the fast client on this very CPU. */
            struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
            if (round > 0 && index % AT_ONCE == AT_ONCE - 1)
                nanosleep(&pause, NULL);
        }
        if (round == 0) {
            puts("ready");
            fflush(stdout);
        }
    }
}

int main(int count, char **arguments)
{
    signal(SIGPIPE, SIG_IGN);
    if (count == 4 && strcmp(arguments[1], "respond") == 0)
        respond(arguments[2], (size_t)atol(arguments[3]));
    if (count == 5 && strcmp(arguments[1], "slow") == 0)
        slow(arguments[2], arguments[3], atoi(arguments[4]));
    fprintf(stderr, "usage: tool respond PORT SIZE | slow PORT PATH COUNT\n");
    return 2;
}
