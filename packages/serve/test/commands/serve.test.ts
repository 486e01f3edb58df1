/**
 * `tandem serve` as a process of its own. The engine behind it is scripted; the model's text is
 * real.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileFailure } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { afterAll, describe, expect, it } from 'vitest'
import { compiled, compiledFolder } from '../../../../test/kit/compiled.js'
import { serveCommand } from '../../src/commands/serve.js'

const started: (() => void)[] = []
afterAll(() => {
  for (const stop of started) stop()
})

/** Starts the command; resolves when it serves or has ended. */
const serve = async (args: readonly string[], env: NodeJS.ProcessEnv = {}) => {
  const child = spawn(process.execPath, [compiled('test/kit/serveMain.ts'), '--port', '0', '--threads', '1', ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  started.push(() => child.kill('SIGKILL'))
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (more: string) => {
    stderr += more
  })
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, stderr })) as Promise<{
    readonly code: number | null
    readonly signal: NodeJS.Signals | null
    readonly stderr: string
  }> // the arguments of Node's `close`
  const line = await Promise.race([
    once(createInterface(child.stdout), 'line').then(([said]) => String(said)),
    ended.then(() => ''),
  ])
  return { child, ended, line, url: line.split(' at ')[1] ?? '', said: () => stderr }
}

const complete = (url: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ prompt: 'How', max_tokens: 8, ...body }),
  })

describe('tandem serve', () => {
  it('serves, says what and where, and ends politely with what runs', async () => {
    const { child, ended, line, url, said } = await serve(['--max-model-len', '99', '--shutdown-seconds', '0'])
    expect(line).toMatch(/^serving word-problems at http:\/\/127\.0\.0\.1:\d+$/)
    expect(said()).toMatch(/^loading .*word-problems\n/)
    expect(said()).toContain('99 tokens of context, 4 requests at a time')
    const answer = (await (await complete(url, {})).json()) as {
      readonly choices: readonly { readonly text: string }[]
    } // the form is tested elsewhere
    expect(answer.choices[0]!.text).toBe('How many')
    const held = await complete(url, { request_id: 'hold', stream: true })
    child.kill('SIGTERM')
    expect(await held.text()).toMatch(/"finish_reason":"abort"[\s\S]*\[DONE\]/)
    expect(await ended).toMatchObject({ code: 0, signal: null })
  })

  it('names the sampling defaults of the model, which it does not apply', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tandem-serve-'))
    await cp('models/word-problems', folder, { recursive: true })
    await writeFile(join(folder, 'generation_config.json'), '{"temperature": 0.6, "top_p": 0.95, "pad_token_id": 0}')
    const { said, line } = await serve([folder])
    expect(line).toMatch(/^serving/)
    expect(said()).toContain('not applied from generation_config.json: temperature 0.6, top_p 0.95\n')
    await rm(folder, { recursive: true })
  })

  it('passes the memory for keys and values to the engine', async () => {
    const given: unknown[] = []
    const command = serveCommand((_, options) => {
      given.push(options)
      return TE.left(fileFailure('read', 'model', { code: 'ENOENT', reason: 'no such folder' }))
    })
    const args = ['--kv-cache-bytes', '1024', '--no-enable-prefix-caching']
    await expect(command.parseAsync(args, { from: 'user' })).rejects.toThrow('no such folder')
    expect(given).toEqual([{ cacheBytes: 1024, prefixCache: 'off' }])
  })

  it('stops at once at a second signal', async () => {
    const { child, ended, url, said } = await serve(['--shutdown-seconds', '1000'])
    const held = complete(url, { request_id: 'hold' }).catch(() => undefined)
    await expect.poll(async () => (await fetch(`${url}/load`)).json()).toEqual({ server_load: 1 })
    child.kill('SIGINT')
    await expect.poll(said).toContain('press Ctrl-C again')
    child.kill('SIGINT')
    expect(await ended).toMatchObject({ code: 130 })
    await held
  })

  it('asks for the key of the environment, which it does not tell; warns of open doors', async () => {
    const { child, ended, url, said } = await serve(['--host', '0.0.0.0', '--dev'], { TANDEM_API_KEY: 'sk-secret' })
    const local = url.replace('0.0.0.0', '127.0.0.1')
    expect((await complete(local, {})).status).toBe(401)
    expect((await complete(local, {}, { authorization: 'Bearer sk-secret' })).status).toBe(200)
    expect((await fetch(`${local}/is_paused`)).status).toBe(200)
    expect(said()).toContain('--dev require no key')
    expect(said()).not.toContain('sk-secret')
    child.kill('SIGTERM')
    await ended
  })

  it('names a model that is not there, and a port that is taken', async () => {
    const [gone, first] = await Promise.all([serve(['no-model']), serve([])])
    const nobody = await gone.ended
    expect([nobody.code, nobody.stderr]).toEqual([1, expect.stringMatching(/no-model .*no such folder/)])
    const second = await (await serve(['--port', new URL(first.url).port])).ended
    expect([second.code, second.stderr]).toEqual([1, expect.stringContaining('the port is in use')])
  })

  it('ends after a port that is taken, though its engine has a thread', async () => {
    const first = await serve([])
    const { port } = new URL(first.url)
    const real = spawn(process.execPath, [compiled('src/cli/main.ts'), 'serve', '--port', port, '--threads', '1'], {
      cwd: compiledFolder(), // its packages are compiled
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    started.push(() => real.kill('SIGKILL'))
    const said = text(real.stderr)
    const [code] = await once(real, 'close')
    expect([code, await said]).toEqual([1, expect.stringContaining('the port is in use')])
  })

  it.each([
    [['--port', '65536'], 'an integer from 0 to 65535'],
    [['--threads', '99999'], 'an integer from 1 to 512'],
    [['--shutdown-seconds', '9999999'], 'an integer from 0 to 2147483'],
  ])('refuses %s with what is expected', async (args, expected) => {
    const { code, stderr } = await (await serve(args)).ended
    expect([code, stderr]).toEqual([1, expect.stringContaining(expected)])
  })
})
