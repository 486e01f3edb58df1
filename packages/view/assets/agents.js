/** The agents of an episode: who started whom, and when each of them wrote. */
import { card, h } from './dom.js'
import { duration } from './format.js'
import { axisTime, gantt } from './gantt.js'
import { address } from './router.js'
import { visible, visibleText } from './visible.js'

/** @typedef {import('../src/foreign/viewedTurn.ts').EpisodeAgents} EpisodeAgents */

const COLORS = 8

const depthOf = (lanes, i) => {
  let depth = 0
  for (let at = lanes[i].parent; at !== null && depth < lanes.length; at = lanes[at].parent) depth++
  return depth
}

/** The lanes in the order of the tree: each after the one that started it. */
const inTree = (lanes) => {
  const below = (parent) => lanes.flatMap((lane, i) => (lane.parent === parent ? [i, ...below(i)] : []))
  return below(null)
}

/** The largest number of turns at the same time. */
const mostAtOnce = (lanes) => {
  const turns = lanes.flatMap((lane) => lane.turns)
  return Math.max(
    0,
    ...turns.map(({ start }) => turns.filter((each) => each.start <= start && start < each.end).length),
  )
}

/**
 * Draws the agents of an episode, or nothing if it has only one.
 *
 * @param {string} run
 * @param {string} rollout that is open
 * @param {EpisodeAgents | null} agents
 */
export const agentsCard = (run, rollout, agents) => {
  if (agents === null) return null
  const { unit, lanes } = agents
  const inSeconds = unit === 'seconds'
  const length = Math.max(...lanes.flatMap((lane) => lane.turns.map(({ end }) => end)))
  const rows = inTree(lanes).map((i) => {
    const lane = lanes[i]
    const depth = depthOf(lanes, i)
    const isOpen = lane.rollout === rollout
    const name = visible(lane.name)
    const link = lane.rollout === null || isOpen ? null : address(['run', run, 'rollout', lane.rollout])
    return {
      name: visibleText(lane.name),
      depth,
      label: [
        depth === 0 ? null : h('span', { class: 'muted', 'aria-hidden': 'true' }, '└ '),
        isOpen ? h('strong', {}, name) : link === null ? name : h('a', { href: link }, name),
        lane.link === null ? null : h('span', { class: 'muted small' }, ' ', visible(lane.link)),
      ],
      bars: lane.turns.map(({ start, end, text }, turn) => ({
        ...{ from: start, to: end, color: `--c${depth % COLORS}` },
        text: `turn ${turn + 1}${inSeconds ? `, ${duration(end - start)}` : ''}: ${visibleText(text)}`,
        href: link ?? undefined,
      })),
    }
  })
  const facts = h(
    'span',
    { class: 'muted small' },
    `${lanes.length} agents${inSeconds ? `, up to ${mostAtOnce(lanes)} at once` : ''}`,
  )
  const format = inSeconds ? axisTime : (value) => `turn ${value + 1}`
  const lanesOf = gantt({ title: 'Agents of the episode', lanes: rows, length, format })
  return h('div', { class: 'agents-card' }, card('Agents', facts, h('div', { class: 'pad agents' }, lanesOf)))
}
