// The nonce that style sheets made by scripts must carry, by the policy that the page comes with.

export const styleNonce = document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content ?? ''
