/** The recorded values of one token, and what the checkpoints tell about it. */
import { isExported } from './api.js'
import { announce, h } from './dom.js'
import { tokenFacts } from './heat.js'
import { tokenModel } from './tokenModel.js'
import { tokenLabel } from './transcript.js'

const factList = (token, which) =>
  h(
    'dl',
    { class: 'token-facts' },
    tokenFacts(token, which).map(([label, value]) => [h('dt', {}, label), h('dd', {}, value)]),
  )

/** @param {object} token @param {'all' | 'main'} [which] values */
export const tokenCard = (token, which = 'main') =>
  h('div', {}, h('code', { class: 'token-name' }, tokenLabel(token.text)), factList(token, which))

const copyLink = async () => {
  try {
    await navigator.clipboard.writeText(location.href)
    announce('Link copied')
  } catch {
    announce('The link is in the address bar')
  }
}

/**
 * Makes the panel of one token.
 *
 * @param {object} run
 * @param {{ place: { rollout: string, turn: number, token: number }, token: object, version: number | null }} chosen
 * @param {AbortSignal} signal
 */
export const inspector = (run, chosen, signal) => {
  const { place, token } = chosen
  const model = isExported ? { element: null, ask: () => undefined } : tokenModel(run, chosen, signal)
  return {
    element: h(
      'div',
      {},
      h('p', { class: 'muted small' }, `Token ${place.token + 1} of turn ${place.turn + 1}`),
      tokenCard(token, 'all'),
      h('div', { class: 'tools' }, h('button', { onclick: copyLink }, 'Copy link')),
      h('div', { class: 'token-model' }, model.element),
    ),
    ask: model.ask,
  }
}
