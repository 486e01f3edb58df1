/** The list of evidence that a program put on the page with `PUT /api/evidence`. */
import { get, listen } from './api.js'
import { fill, h } from './dom.js'
import { address } from './router.js'
import { longText, visible } from './visible.js'

const linkOf = ({ run, rollout, turn, token }) =>
  rollout === undefined ? address(['run', run]) : address(['run', run, 'rollout', rollout], { turn, token })

const placeOf = ({ run, rollout, token }) =>
  [run, rollout, token === undefined ? undefined : `token ${token}`].filter((each) => each !== undefined).join(' · ')

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const evidenceView = async (_route, signal) => {
  const body = h('div', { class: 'stack' })
  const draw = async () => {
    const { title, items } = await get('/api/evidence', {}, signal)
    fill(
      body,
      h('div', { class: 'head' }, h('h1', {}, visible(title === '' ? 'Evidence' : title))),
      items.length === 0
        ? h(
            'div',
            { class: 'card empty' },
            h('h2', {}, 'No evidence yet'),
            h('p', {}, 'A program points this page at places of runs with ', h('code', {}, 'PUT /api/evidence'), '.'),
          )
        : h(
            'ol',
            { class: 'evidence' },
            items.map((item) =>
              h(
                'li',
                { class: 'card' },
                longText(item.text),
                h('a', { class: 'small', href: linkOf(item) }, visible(placeOf(item))),
              ),
            ),
          ),
    )
  }
  await draw()
  signal.addEventListener('abort', listen('/api/events', { evidence: draw }))
  return { title: 'Evidence', crumbs: [{ label: 'Evidence' }], body }
}
