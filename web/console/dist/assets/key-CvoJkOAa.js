import{au as s,av as c}from"./index-DX7EL22c.js";const k=Symbol("NaN");function N(r,e,n){var o=new c(r);s(()=>{var a=e();a!==a&&(a=k),o.ensure(a,n)})}export{N as k};
