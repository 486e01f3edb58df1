/**
 * Checks a SkyRL clone and trains on it:
 * `npx tsx scripts/trySkyrl.ts CLONE PYTHON_ENVIRONMENT MODEL OUT [STEPS]`.
 *
 * The environment has SkyRL's packages for its JAX backend, and `uv`. `makeTinkerModel.ts` makes a
 * model. OUT receives the database and checkpoints of the server, its log, and the run.
 */
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

const PORT = 8711
const WAIT_SECONDS = 300
const url = `http://127.0.0.1:${PORT}`

const [clone, environment, given, folder, steps = '30'] = process.argv.slice(2)
if (clone === undefined || environment === undefined || given === undefined || folder === undefined)
  throw new RangeError('usage: npx tsx scripts/trySkyrl.ts CLONE PYTHON_ENVIRONMENT MODEL OUT [STEPS]')
const [python, model, out] = [resolve(environment), resolve(given), resolve(folder)]
mkdirSync(out, { recursive: true })

const startServer = () => {
  const log = openSync(join(out, 'server.log'), 'a')
  const settings = JSON.stringify({ max_lora_adapters: 8, max_lora_rank: 32 })
  const server = spawn(
    'uv',
    [
      ...['run', '--no-project', '--active', '-m', 'skyrl.tinker.api', '--base-model', model, '--backend', 'jax'],
      ...['--backend-config', settings, '--checkpoints-base', join(out, 'checkpoints')],
      ...['--database-url', `sqlite:///${join(out, 'tinker.db')}`, '--host', '127.0.0.1', '--port', String(PORT)],
    ],
    {
      ...{ cwd: out, stdio: ['ignore', log, log] },
      env: {
        ...process.env,
        ...{ PYTHONPATH: resolve(clone), VIRTUAL_ENV: python, PATH: `${join(python, 'bin')}:${process.env.PATH}` },
        ...{ HF_HUB_OFFLINE: '1', UV_OFFLINE: '1', JAX_PLATFORMS: 'cpu' },
      },
    },
  )
  closeSync(log)
  return server
}

const isHealthy = async (): Promise<boolean> => {
  try {
    return (await fetch(`${url}/api/v1/healthz`, { signal: AbortSignal.timeout(5000) })).ok
  } catch {
    return false // not listening yet
  }
}

/** Runs a command of ours and throws if it fails. */
const tandem = (args: readonly string[]): Promise<void> =>
  new Promise((done, fail) => {
    const command = ['--import', 'tsx', 'src/cli/main.ts', ...args]
    const running = spawn(process.execPath, command, { stdio: 'inherit' })
    running.once('exit', (code) => (code === 0 ? done() : fail(new Error(`tandem ${args[0]}: exit code ${code}`))))
  })

const server = startServer()
try {
  const end = Date.now() + 1000 * WAIT_SECONDS
  while (!(await isHealthy())) {
    if (server.exitCode !== null || Date.now() > end) throw new Error(`no server: see ${join(out, 'server.log')}`)
    await pause(1000)
  }
  await tandem(['tinker', 'check', url, '--base-model', model])
  await tandem([
    ...['train', './scripts/skyrlRecipe.ts', '--model', model, '--out', join(out, 'run'), '--steps', steps],
    ...['--learner', 'tinker', '--url', url, '--base-model', model, '--lora-rank', '8', '--learning-rate', '0.01'],
    ...['--eval-every', '100', '--checkpoint-every', '5', '--threads', '1'],
  ])
} finally {
  server.kill('SIGINT')
}
