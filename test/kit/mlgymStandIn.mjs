// Speaks the protocol of packages/tools/assets/mlgymBridge.py, without MLGym: what the tests of processMLGym talk to.
import { createInterface } from 'node:readline'

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`)
const shell = { openFile: 'n/a', workingDirectory: '/work' }
const reply = (observation, more = {}) => ({
  ok: true,
  result: { observation, done: false, exitStatus: null, scores: [], shell, ...more },
})

const COMMANDS = {
  validate: () => say(reply('Evaluation', { scores: [{ Score: 2, Loss: null }] })),
  submit: () => say(reply('Exited (submit)', { done: true, exitStatus: 'submitted', scores: [{ Score: 3 }] })),
  big: () => say(reply('å'.repeat(300_000))),
  refuse: () => say({ ok: false, reason: 'RuntimeError: no' }),
  garbage: () => process.stdout.write('Traceback\n'),
  wrong: () => say({ ok: true, result: { observation: 1 } }),
  die: () => {
    process.stderr.write('out of luck\n')
    process.exit(3)
  },
  hang: () => {},
}

createInterface(process.stdin).on('line', (line) => {
  const request = JSON.parse(line)
  if (request.op === 'open') {
    const { task, maxSteps, seed } = request
    if (task === 'missing') return say({ ok: false, reason: 'FileNotFoundError: tasks/missing.yaml' })
    const description = `${task} ${maxSteps} ${seed} ${process.pid}`
    return say({ ok: true, result: { description, commandDocs: '', baseline: { Score: 1 }, shell } })
  }
  if (request.op === 'close') {
    process.stderr.write('closed\n')
    return process.exit(0)
  }
  return (COMMANDS[request.command] ?? (() => say(reply(`ran ${request.command}`))))()
})
