/** The completions of one task side by side, with what differs first. */
import { get, runPath } from './api.js'
import { fill, h } from './dom.js'
import { number, signed, whole } from './format.js'
import { advantageClass, flagsOf } from './rollouts.js'
import { address } from './router.js'
import { named } from './runFrame.js'
import { tokenLabel, tokenText } from './transcript.js'
import { visibleText } from './visible.js'

/** Tokens drawn of each completion. */
const DRAWN = 1500

/**
 * Returns the pieces of what the model wrote: tokens, or words where the log has no tokens.
 *
 * @param {readonly object[]} turns
 */
const piecesOf = (turns) =>
  turns
    .filter((turn) => turn.author === 'model')
    .flatMap((turn) => turn.tokens?.map((token) => token.text) ?? turn.text.split(/(?<=\s)/))

/** @param {readonly (readonly string[])[]} lists */
const commonPrefix = (lists) => {
  const [first, ...others] = lists
  let length = 0
  while (length < first.length && others.every((each) => each[length] === first[length])) length += 1
  return length
}

/**
 * Counts what follows the common prefix, with the mean reward of each branch.
 *
 * @param {readonly { pieces: readonly string[], row: object }[]} members
 * @param {number} at length of the common prefix
 */
const branchesOf = (members, at) => {
  const branches = new Map()
  for (const { pieces, row } of members) {
    const next = pieces[at] ?? null
    branches.set(next, [...(branches.get(next) ?? []), row.reward])
  }
  return [...branches].sort(([, a], [, b]) => b.length - a.length)
}

const summary = (members) => {
  const at = commonPrefix(members.map(({ pieces }) => pieces))
  const branches = branchesOf(members, at)
  if (branches.length < 2) return h('p', { class: 'pad muted' }, 'All completions are equal.')
  const mean = (rewards) => rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
  return h(
    'div',
    { class: 'pad' },
    h(
      'p',
      { class: 'muted small' },
      at === 0
        ? 'They differ from the first token. It is followed by:'
        : `The first ${at} tokens are equal. Then come:`,
    ),
    h(
      'ul',
      { class: 'branches' },
      branches
        .slice(0, 12)
        .map(([text, rewards]) =>
          h(
            'li',
            {},
            h('code', {}, text === null ? 'end' : tokenLabel(text)),
            h('span', { class: 'muted' }, ` × ${rewards.length}`),
            ' mean reward ',
            h('strong', {}, number(mean(rewards))),
          ),
        ),
    ),
  )
}

const column = ({ run, row, pieces }, base, isOpen) => {
  const same = isOpen ? 0 : commonPrefix([pieces, base])
  const body = pieces.slice(0, DRAWN)
  return h(
    'li',
    { class: 'member', 'aria-current': isOpen ? 'true' : null },
    h(
      'header',
      {},
      isOpen ? h('strong', {}, 'This one') : h('a', { href: address(['run', run.id, 'rollout', row.id]) }, 'Open'),
      h('span', {}, 'reward ', h('strong', {}, number(row.reward))),
      row.advantage === null ? null : h('span', { class: advantageClass(row.advantage) }, signed(row.advantage)),
      h('span', { class: 'muted' }, `${whole(row.length)} tokens`),
      flagsOf(row),
    ),
    h(
      'div',
      { class: 'muted small' },
      Object.entries(row.parts).map(([name, value]) => [named(name), ' ', number(value), '  ']),
    ),
    h(
      'div',
      {
        class: 'text',
        dir: 'ltr',
        tabindex: '0',
        role: 'region',
        'aria-label': `Completion with reward ${number(row.reward)}`,
      },
      same > 0
        ? h('span', { class: 'same', title: 'as in the open rollout' }, tokenText(body.slice(0, same).join('')))
        : null,
      !isOpen && same < body.length ? h('mark', { title: 'differs first here' }, tokenText(body[same])) : null,
      h('span', {}, tokenText(body.slice(isOpen ? 0 : same + 1).join(''))),
      pieces.length > DRAWN ? h('span', { class: 'muted' }, ' …') : null,
    ),
  )
}

/**
 * Makes the group of a rollout.
 *
 * @param {object} run
 * @param {object} answer of the open rollout
 * @param {AbortSignal} signal
 */
export const groupPanel = (run, answer, signal) => {
  const { group, groupSize, row } = answer
  const element = h('div', { class: 'group' }, h('p', { class: 'pad muted' }, 'Loading the group …'))
  const others = group.filter((each) => each.id !== row.id)
  const load = async () => {
    const found = await Promise.all(
      others.map((each) => get(`${runPath(run.id)}/rollouts/${encodeURIComponent(each.id)}`, {}, signal)),
    )
    const open = { run, row, pieces: piecesOf(answer.turns) }
    const members = [open, ...found.map((each) => ({ run, row: each.row, pieces: piecesOf(each.turns) }))]
    const sorted = [open, ...members.slice(1).sort((a, b) => b.row.reward - a.row.reward)]
    fill(
      element,
      summary(members),
      h(
        'ul',
        { class: 'members', tabindex: '0', 'aria-label': 'Completions of the group' },
        sorted.map((each) => column(each, open.pieces, each === open)),
      ),
      groupSize > group.length
        ? h('p', { class: 'pad muted small' }, `${groupSize - group.length} more are not drawn.`)
        : null,
    )
  }
  load().catch((error) => (signal.aborted ? undefined : fill(element, h('p', { class: 'error' }, error.message))))
  return element
}

/** @param {string} group */
export const groupName = (group) => visibleText(group).slice(0, 60)
