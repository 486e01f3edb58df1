/**
 * A real `redis-server` as a process of its own, on a socket in a folder of its own, and a door
 * before it that can be shut.
 */
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createConnection, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { orThrow } from '@tandem-rl/base'
import { liveProcesses } from '@tandem-rl/host'

/** Why there can be no server here; undefined if there can be one. */
export const noRedis: string | undefined =
  spawnSync('redis-server', ['--version']).status === 0 ? undefined : 'redis-server is not installed'

export interface RedisServer {
  /** Its address, for a client. */
  readonly url: string
  readonly socket: string
  /** Ends it as SIGKILL does. What it has answered is on its disk. */
  readonly kill: () => Promise<void>
  /** Starts it again, with what is on its disk. */
  readonly start: () => Promise<void>
  /** To be called once, in the end. */
  readonly close: () => Promise<void>
}

/** Starts a server that writes requests to its disk. */
export const redisServer = async (...more: readonly string[]): Promise<RedisServer> => {
  const folder = mkdtempSync(join(tmpdir(), 'tandem-redis-'))
  const socket = join(folder, 'redis.sock')
  let running: Awaited<ReturnType<typeof launch>>
  const launch = async () => {
    const lines: string[] = []
    let ready = (): void => {}
    const isReady = new Promise<void>((go) => {
      ready = go
    })
    const redis = orThrow(
      await liveProcesses.start({
        command: 'redis-server',
        args: [
          ...['--port', '0', '--unixsocket', socket, '--dir', folder, '--save', ''],
          ...['--appendonly', 'yes', ...more],
        ],
        onLine: (line) => {
          lines.push(line)
          if (line.includes('accept connections')) ready()
        },
      })(),
    )
    const gone = redis.ended.then(() => Promise.reject(new Error(`redis-server has ended:\n${lines.join('\n')}`)))
    await Promise.race([isReady, gone])
    gone.catch(() => {}) // it ends some day
    return redis
  }
  running = await launch()
  const kill = async (): Promise<void> => {
    process.kill(running.pid, 'SIGKILL')
    await running.ended
  }
  return {
    ...{ url: `unix:${socket}`, socket, kill },
    start: async () => {
      running = await launch()
    },
    close: async () => {
      await running.stop(60_000)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export interface Door {
  readonly url: string
  /** Cuts all connections now. */
  readonly cut: () => void
  /**
   * Loses the next answer with its connection, after the server has carried out the command.
   */
  readonly loseAnswer: () => void
  /** Answers of connections that are there do not come any more, and nobody is told. */
  readonly hush: () => void
  /** Connections since the beginning. */
  readonly connections: () => number
  readonly close: () => Promise<void>
}

/** A door before a server, on a socket beside it. */
export const doorTo = async ({ socket: path }: Pick<RedisServer, 'socket'>): Promise<Door> => {
  const pairs = new Set<{ readonly inner: Socket; readonly outer: Socket; isHushed: boolean }>()
  let connections = 0
  let toLose = 0
  const own = `${path}.door${Math.random().toString(36).slice(2)}`
  const server = createServer((outer) => {
    connections++
    const inner = createConnection(path)
    const pair = { inner, outer, isHushed: false }
    pairs.add(pair)
    const end = (): void => {
      pairs.delete(pair)
      inner.destroy()
      outer.destroy()
    }
    for (const side of [inner, outer]) side.on('error', end).on('close', end)
    outer.on('data', (bytes) => inner.write(bytes))
    inner.on('data', (bytes) => {
      if (pair.isHushed) return
      if (toLose > 0) {
        toLose--
        end()
      } else outer.write(bytes)
    })
  })
  server.listen(own)
  await once(server, 'listening')
  const cut = (): void => {
    for (const { inner, outer } of pairs) {
      inner.destroy()
      outer.destroy()
    }
  }
  return {
    url: `unix:${own}`,
    cut,
    loseAnswer: () => {
      toLose++
    },
    hush: () => {
      for (const pair of pairs) pair.isHushed = true
    },
    connections: () => connections,
    close: async () => {
      cut()
      server.close()
      await once(server, 'close')
    },
  }
}
